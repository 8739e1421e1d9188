"""Run the command line as `python -m redline`."""

import sys

from redline.cli import main

if __name__ == "__main__":
    sys.exit(main())
