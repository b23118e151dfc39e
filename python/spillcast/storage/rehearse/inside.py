"""Becomes a command; other directories replace the temp directories for it and its children.

Run by path, as ``inside.py DESCRIPTOR PARENT FROM:TO... -- PROGRAM ARGUMENT...``, with FROM and TO
percent-encoded. The descriptor closes when the command starts; a failure before that is written to
it. Imports no module of spillcast.
"""

import ctypes
import os
import signal
import sys
from urllib.parse import unquote_to_bytes

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def main(report: int, parent: int, *words: str) -> None:
    """Mount, then become the command."""
    at = words.index("--")
    # The parent may have been killed before this call.
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    os.set_inheritable(report, False)
    separate()
    for pair in words[:at]:
        source, target = map(unquote_to_bytes, pair.split(":"))
        checked("mount", LIBC.mount(source, target, None, MS_BIND, None))
    # Standard output belongs to spillcast, and the command gets no input.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.execv(words[at + 1], words[at + 1 :])


def separate() -> None:
    """Enter a new mount namespace; an unprivileged user also needs a user namespace."""
    user, group = os.geteuid(), os.getegid()
    if LIBC.unshare(CLONE_NEWNS) != 0:
        checked("unshare", LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS))
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    checked("mount", LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))


def checked(call: str, result: int) -> None:
    """OSError if a call failed."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")


if __name__ == "__main__":
    descriptor, starter = int(sys.argv[1]), int(sys.argv[2])
    try:
        main(descriptor, starter, *sys.argv[3:])
    except OSError as error:
        os.write(descriptor, str(error.strerror).encode())
    os._exit(127)
