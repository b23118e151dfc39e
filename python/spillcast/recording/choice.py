"""Which source observes: the best that works, as it turns out when it is to begin."""

from collections.abc import Sequence

from spillcast.recording.refused import refused
from spillcast.recording.source import Source, check_attaches, named


class Choice:
    """The sources that are asked for, tried one after the other until one works.

    They are for a command, or for process ``pid`` that runs already, which ``what`` gives a name.
    InputError where ``capture`` names a source that cannot serve.
    """

    def __init__(
        self,
        capture: str,
        pid: int | None = None,
        what: str | None = None,
        calls: Sequence[str] | None = None,
    ) -> None:
        self._what = what or ("a command" if pid is None else f"process {pid}")
        self._pid, self._calls = pid, calls
        if pid is not None:
            hint = f"start it under: spillcast record --capture {capture} -- COMMAND"
            check_attaches(capture, self._what, hint)
        self._left = [source for source in named(capture) if pid is None or source.attaches]
        #: Sources that did not work, each with what the kernel said.
        self._refusals: list[tuple[type[Source], OSError]] = []

    def take(self) -> Source:
        """Make the best one ready that is left. InputError says why there is none."""
        while self._left:
            source = self._left.pop(0)
            try:
                return source(self._calls)
            except OSError as error:
                self._refusals.append((source, error))
        first = self._refusals[0][1]
        raise refused(first, self._what, self._pid) from first

    def after(self, source: Source, error: OSError, pid: int) -> Source:
        """The next one, as ``source`` could not begin with process ``pid``; InputError as above."""
        self._refusals.append((type(source), error))
        if isinstance(error, ProcessLookupError) or not self._left:
            raise refused(error, f"process {pid}", pid) from error
        return self.take()

    def notice(self, source: Source) -> str | None:
        """Which sources were not taken for this one, and why, in a line; None: it is the best."""
        if not self._refusals:
            return None
        reasons = [f"{one.title} cannot be used ({why.strerror})" for one, why in self._refusals]
        return f"{', '.join(reasons)}: {source.title} observes instead"
