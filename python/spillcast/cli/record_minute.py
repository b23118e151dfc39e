"""A minute of what runs already: ``record --minute`` attaches in bursts, and not in between."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.engines.engine import Wanted
from spillcast.errors import OptionMissing
from spillcast.interruptible import interrupted_once
from spillcast.units import format_duration

if TYPE_CHECKING:
    from spillcast.cli.live import View
    from spillcast.recording import Recording
    from spillcast.recording.options import RecordOptions

_TICK_S = 0.25


def check_minute(command: Sequence[str] | None, options: "RecordOptions", *, others: bool) -> None:
    """InputError for what does not go with it."""
    if command is not None or others or options.slices is not None:
        raise OptionMissing(
            "--minute needs a process or session that is already running, and no other mode",
            "leave out --all, --explain, --live, --rehearse and --slices; give --pid or a session",
        )


def record_minute(
    pid: int | None,
    server: str | None,
    output: Path,
    options: "RecordOptions",
    wanted: Wanted,
    view: "View",
) -> "Recording":
    """Record it in bursts until it ends, all are done, or Ctrl-C, and keep what there is."""
    from spillcast.cli.record_server import record_server
    from spillcast.recording.folder import check_output
    from spillcast.recording.minute import keep, record_bursts
    from spillcast.workspace import workspace

    check_output(output, force=options.force)
    session, numbers = wanted, count()

    def burst(room: Path, duration_s: float) -> "Recording":
        nonlocal session
        record_options = replace(options, duration_s=duration_s, share=False, force=False)
        path = room / f"{next(numbers)}.spill"
        if server is None:
            assert pid is not None
            return _of_process(pid, path, record_options, view)
        recording = record_server(server, path, record_options, session, view, None)
        if recording.meta.postgres is not None:
            # The next bursts are of this session, whatever others may match by then.
            session = Wanted(recording.meta.postgres.backend)
        return recording

    def pause(gap_s: float) -> None:
        try:
            if gap_s >= 1:
                view.say(f"detached for {format_duration(gap_s)}")
            until_s = time.monotonic() + gap_s
            while (left_s := until_s - time.monotonic()) > 0:
                time.sleep(min(left_s, _TICK_S))
        except KeyboardInterrupt:
            interrupted_once()
            raise

    with workspace(output.absolute().parent) as room:
        bursts = record_bursts(partial(burst, room), pause, options.duration_s, view.say)
        return keep(bursts, output, share=options.share, force=options.force)


def _of_process(pid: int, path: Path, options: "RecordOptions", view: "View") -> "Recording":
    from spillcast.cli.record import follow
    from spillcast.recording.begin import record_pid

    recorder = record_pid(pid, path, options)
    follow(recorder, view)
    return recorder.finish()
