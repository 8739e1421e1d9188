"""A program without steps, of 100 equal pieces of work and some more, that ends after a third of a second."""

import sys
from hashlib import sha256

PIECES = 100
DATA = bytes(1 << 20)


def main() -> None:
    for _ in range(PIECES + int(sys.argv[-1])):
        sha256(DATA).digest()


if __name__ == "__main__":
    main()
