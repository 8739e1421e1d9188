"""A rank of the collectives that stays on one core: rank 0 on the first, rank 1 on the second, and so on."""

import os
import sys

if __name__ == "__main__":
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(os.environ["LOCAL_RANK"])]})
    from redline.calibration.collectives.worker import main

    sys.exit(main(sys.argv[1:]))
