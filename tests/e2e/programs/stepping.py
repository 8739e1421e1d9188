"""Takes steps that it names itself, without torch: STEPS of so many milliseconds."""

import sys
import time

import redline

for _ in range(int(sys.argv[1])):
    time.sleep(float(sys.argv[2]) / 1000)
    redline.step()
