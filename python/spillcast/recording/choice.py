"""Selects the capture source: the best one that works when the recording begins.

Whether a source works shows only when it attaches, for this process and this limit of descriptors.
If only the preload library can observe a held command, the command is ended before it has done
anything, and started again with the library in its environment.
"""

import errno
import os
import resource
from collections.abc import Sequence
from pathlib import Path

from spillcast.errors import CaptureUnavailable, InputError, PermissionDenied, ProcessMissing
from spillcast.recording.source import AUTO, Capture, Source, check_attaches, named
from spillcast.recording.user_folder import is_new


class StartAgain(Exception):
    """Raised if a held command must be restarted with ``environment`` for the next source."""

    def __init__(self, environment: dict[str, str]) -> None:
        super().__init__("the command needs another environment")
        self.environment = environment


class Choice:
    """The sources that are asked for, tried one after the other until one works.

    They are for a command, or for process ``pid`` that runs already, which ``what`` gives a name;
    ``source`` is the best that is ready. InputError names the refusal and its remedy.
    """

    def __init__(
        self,
        capture: str,
        pid: int | None = None,
        text: str | None = None,
        calls: Sequence[str] | None = None,
    ) -> None:
        self._label = text or ("a command" if pid is None else f"process {pid}")
        self._pid, self._calls = pid, calls
        self._is_auto = capture == AUTO
        if pid is not None:
            hint = f"start it under: spillcast record --capture {capture} -- COMMAND"
            check_attaches(capture, self._label, hint)
        self._left = [source for source in named(capture) if pid is None or source.attaches]
        #: Sources that did not work, each with what the kernel said.
        self._refusals: list[tuple[type[Source], OSError]] = []
        self.source = self._take()

    def _take(self) -> Source:
        while self._left:
            source = self._left.pop(0)
            try:
                return source(self._calls)
            except OSError as error:
                self._refusals.append((source, error))
        # The last one wants the least rights.
        last, reason = self._refusals[-1]
        raise refused(reason, self._label, self._pid, last) from reason

    def begin(self, pid: int, temp_dirs: Sequence[str]) -> Capture:
        """Observe a process by the best source that can.

        InputError says why none can, StartAgain that the next one must be there from its start.
        """
        while True:
            try:
                return self.source.start(pid, temp_dirs)
            except OSError as error:
                self._refusals.append((type(self.source), error))
                if isinstance(error, ProcessLookupError) or not self._left:
                    raise refused(error, f"process {pid}", pid, type(self.source)) from error
            self.source = self._take()
            if environment := self.source.environment():
                raise StartAgain(environment)

    def new_notice(self) -> str | None:
        """The notice, if this user has never seen it."""
        notice = self.notice()
        return notice if notice is not None and is_new(notice) else None

    def notice(self) -> str | None:
        """Which source observes and why no better one, in a line; None where it was asked for."""
        if not self._is_auto:
            return None
        if not self._refusals:
            return f"the capture source is {self.source.title}, the best one"
        reasons = [f"{source.title} ({source.reason(why)})" for source, why in self._refusals]
        return f"cannot use {', '.join(reasons)}: {self.source.title} instead"


def refused(
    error: OSError, text: str, pid: int | None = None, source: type[Source] | None = None
) -> InputError:
    """The error of an attempt to observe ``what``, which may run already as ``pid``, in words."""
    if error.errno == errno.ESRCH:
        return ProcessMissing(f"{text} has ended")
    if source is not None and (known := source.refusals.get(error.errno or 0)) is not None:
        return CaptureUnavailable(f"cannot observe {text}: {known[0]}", known[1])
    if error.errno == errno.EMFILE:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return CaptureUnavailable(
            f"too few file descriptors to observe {text}", f"raise ulimit -n, which is {limit:,}"
        )
    if error.errno not in (errno.EACCES, errno.EPERM, errno.ENOSYS, errno.ENOENT):
        return CaptureUnavailable(f"cannot observe {text}: {error.strerror}")
    try:
        paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        paranoid = None
    if paranoid is not None and paranoid > 2 and os.geteuid() != 0:
        hint = "as root: sysctl kernel.perf_event_paranoid=2, or give spillcast CAP_PERFMON"
        return PermissionDenied(
            f"cannot observe {text}: kernel.perf_event_paranoid is {paranoid}", hint
        )
    if pid is not None and os.geteuid() != 0 and _belongs_to_another(pid):
        hint = "run spillcast as that user, as root, or with CAP_PERFMON and CAP_SYS_PTRACE"
        return PermissionDenied(f"cannot observe {text}: it belongs to another user", hint)
    hint = (
        "perf_event_open is refused here: give the container CAP_PERFMON and a seccomp profile "
        "that allows it, or start the command with --capture preload"
    )
    return CaptureUnavailable(f"cannot observe {text}: {error.strerror}", hint)


def _belongs_to_another(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid != os.geteuid()
    except OSError:
        return False
