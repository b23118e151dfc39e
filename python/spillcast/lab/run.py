"""Running a query somewhere: bare, or under observation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spillcast.engines.duckdb import DuckDb, Query, Ran, version
from spillcast.lab.storages import Place
from spillcast.recording import Recording
from spillcast.recording.recorder import Asked, Method, Recorder

Status = dict[str, Any]
#: Share of a run spent ready without a CPU from which on the machine counts as busy.
BUSY = 0.03


def run(query: Query, place: Place, on_tick: Callable[[], None] | None = None) -> Ran:
    """Run a query as it is."""
    engine = DuckDb(query, place.environment)
    try:
        engine.start()
        while not engine.wait(0.1):
            if on_tick is not None:
                on_tick()
        return engine.result()
    finally:
        engine.close()


def busy(ran: Ran) -> bool:
    """Whether other work on the machine took so much CPU that the run says little."""
    return ran.run_queue_delay_s > BUSY * ran.elapsed_s


def run_recorded(
    query: Query,
    place: Place,
    output: Path,
    on_status: Callable[[Status], None] | None = None,
) -> tuple[Ran, Recording]:
    """Run a query and record it; the recording's elapsed time is the query's own."""
    # A delay made by the preload library is seen from inside the process only.
    capture: Method = "preload" if place.means == "preload" else "auto"
    recorder = Recorder(output, Asked(temp_dirs=[query.temp_directory], capture=capture))
    environment = recorder.prepare()
    engine = DuckDb(query, environment | place.environment)
    try:
        recorder.observe(engine)
        engine.start()
        while not recorder.poll():
            if on_status is not None:
                on_status(recorder.status())
        ran = engine.result()
        described = {"name": "duckdb", "version": version(), "sql": query.sql.strip()}
        settings = {"memory_limit": query.memory_limit, "threads": query.threads}
        extra = {"engine": {**described, **settings}}
        return ran, recorder.finish(elapsed_s=ran.elapsed_s, extra=extra)
    except BaseException:
        recorder.abandon()
        raise
    finally:
        engine.close()
