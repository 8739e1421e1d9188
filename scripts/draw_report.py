"""Take a picture of the top of an HTML report: `python scripts/draw_report.py REPORT.html OUT.png [HEIGHT]`.

Needs playwright and a Chromium that is there already. Looking at the picture is the test.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH_PX, HEIGHT_PX, SCALE = 1180, 940, 1.5


def main(report: str, out: str, height: str = str(HEIGHT_PX)) -> None:
    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        size = {"width": WIDTH_PX, "height": int(height)}
        page = browser.new_page(viewport=size, device_scale_factor=SCALE, color_scheme="light")  # type: ignore[arg-type]
        page.goto(Path(report).resolve().as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
