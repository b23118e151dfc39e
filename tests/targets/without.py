"""Runs spillcast as if some packages were not installed: PACKAGE,PACKAGE ARGUMENTS..."""

import sys
from importlib.abc import MetaPathFinder


class Absent(MetaPathFinder):
    """An importer that reports these packages as missing."""

    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, *_):
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if __name__ == "__main__":
    sys.meta_path.insert(0, Absent(set(sys.argv[1].split(","))))
    sys.argv = ["spillcast", *sys.argv[2:]]
    from spillcast.cli import main

    main()
