"""Why the kernel refuses to let a process be observed, and what mends it."""

import errno
import os
import resource
from pathlib import Path

from spillcast.errors import InputError
from spillcast.recording.source import Source


def refused(
    error: OSError, text: str, pid: int | None = None, source: type[Source] | None = None
) -> InputError:
    """The error of an attempt to observe ``what``, which may run already as ``pid``, in words."""
    if error.errno == errno.ESRCH:
        return InputError(f"{text} has ended")
    if source is not None and (known := source.refusals.get(error.errno or 0)) is not None:
        return InputError(f"cannot observe {text}: {known[0]}", known[1])
    if error.errno == errno.EMFILE:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return InputError(
            f"too few file descriptors to observe {text}", f"raise ulimit -n, which is {limit:,}"
        )
    if error.errno not in (errno.EACCES, errno.EPERM, errno.ENOSYS, errno.ENOENT):
        return InputError(f"cannot observe {text}: {error.strerror}")
    try:
        paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        paranoid = None
    if paranoid is not None and paranoid > 2 and os.geteuid() != 0:
        hint = "as root: sysctl kernel.perf_event_paranoid=2, or give spillcast CAP_PERFMON"
        return InputError(f"cannot observe {text}: kernel.perf_event_paranoid is {paranoid}", hint)
    if pid is not None and os.geteuid() != 0 and _belongs_to_another(pid):
        hint = "run spillcast as that user, as root, or with CAP_PERFMON and CAP_SYS_PTRACE"
        return InputError(f"cannot observe {text}: it belongs to another user", hint)
    hint = (
        "perf_event_open is refused here: give the container CAP_PERFMON and a seccomp profile "
        "that allows it, or start the command with --capture preload"
    )
    return InputError(f"cannot observe {text}: {error.strerror}", hint)


def _belongs_to_another(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid != os.geteuid()
    except OSError:
        return False
