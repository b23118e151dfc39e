"""A program that reads a data file block by block, and spills each block."""

import argparse
import os
from pathlib import Path

BYTES = 8192


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="a file that is only read")
    parser.add_argument("--file", type=Path, required=True, help="the temp file")
    options = parser.parse_args()

    data = os.open(options.data, os.O_RDONLY)
    temp = os.open(options.file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    size = os.fstat(data).st_size
    for offset in range(0, size, BYTES):
        os.pwrite(temp, os.pread(data, BYTES, offset), offset)
    for offset in range(0, size, BYTES):
        os.pread(temp, BYTES, offset)


if __name__ == "__main__":
    main()
