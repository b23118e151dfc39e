"""The machine's caches, measured only by the first recording of a session of the tests.

Each recording would measure them for 0.5 s. Recordings in separate processes do, as for users,
unless they run this module in place of ``-m spillcast``.
"""

import json
import os
import threading
from dataclasses import asdict, replace
from pathlib import Path

from spillcast import _core
from spillcast.recording.meta import CpuCache
from spillcast.recording.record import Recorder

_measure, _meta = _core.Recorder.measure_caches, Recorder._meta


def measure_once():
    """Uses the measurement of the first recording, or measures and keeps it."""
    kept = Path(os.environ["XDG_CACHE_HOME"], "caches.json")

    def measure(core):
        if not kept.exists():
            _measure(core)

    def meta(recorder, *times):
        result = _meta(recorder, *times)
        machine = result.machine
        if machine.caches:
            # Another process may read the file meanwhile.
            written = kept.with_suffix(f".{threading.get_native_id()}")
            written.write_text(json.dumps([asdict(cache) for cache in machine.caches]))
            written.replace(kept)
            return result
        if not recorder.captures or machine.calibration is not None or not kept.exists():
            return result
        caches = [CpuCache(**cache) for cache in json.loads(kept.read_text())]
        return replace(result, machine=replace(machine, caches=caches))

    _core.Recorder.measure_caches = measure
    Recorder._meta = meta


if __name__ == "__main__":
    from spillcast.cli import main

    measure_once()
    main()
