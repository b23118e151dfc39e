"""Run by root: runs its arguments as a command of user 65534, without any privilege.

If the Python installation is in a directory that only root may enter, that directory is replaced in
a private mount namespace by one that shows only the installation.
"""

import ctypes
import os
import sys
import tempfile
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
NOBODY = 65534


def call(function, *arguments):
    if function(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{function.__name__} refused")


def reveal(tree, libc):
    """Makes ``tree`` reachable for everyone, if a directory above it is not."""
    closed = [parent for parent in tree.parents if not parent.stat().st_mode & 0o001]
    if not closed:
        return
    bound = tempfile.mkdtemp()
    call(libc.mount, os.fsencode(tree), bound.encode(), None, MS_BIND | MS_REC, None)
    call(libc.mount, b"none", os.fsencode(closed[-1]), b"tmpfs", 0, b"mode=755")
    os.makedirs(tree, mode=0o755)
    call(libc.mount, bound.encode(), os.fsencode(tree), None, MS_BIND | MS_REC, None)
    call(libc.umount2, bound.encode(), MNT_DETACH)
    os.rmdir(bound)


if __name__ == "__main__":
    libc = ctypes.CDLL(None, use_errno=True)
    call(libc.unshare, CLONE_NEWNS)
    call(libc.mount, b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    reveal(Path(sys.base_prefix).resolve(), libc)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.execvp(sys.argv[1], sys.argv[1:])
