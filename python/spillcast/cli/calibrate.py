"""``spillcast calibrate``: measure the CPU cost of waits on this machine."""

from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.options import Work
from spillcast.cli.usage import Answer

if TYPE_CHECKING:
    from spillcast.recording.calibration import Calibration


def calibrate(
    show: Annotated[
        bool, typer.Option("--show", help="Print the existing calibration; run nothing.")
    ] = False,
    queries: Annotated[
        int | None, typer.Option(min=1, help="Only the first N queries of each engine.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each query on each storage.")] = 2,
    postgres: Annotated[
        str | None,
        typer.Option(
            "--postgres",
            metavar="DSN",
            help="Measure the version of PostgreSQL of this server, which runs on this machine.",
        ),
    ] = None,
    work: Work = None,
) -> Answer:
    """Measure the CPU time that waits cost on this machine.

    Later forecasts have narrower intervals.

    Takes three minutes: small queries spill to memory and to storage with two delays, on the DuckDB
    of this Python, on the duckdb on the PATH if that is another version, and on PostgreSQL. It
    keeps about two cores busy, so do not run it at peak time. With --postgres the queries run on a
    private server of the same programs: the server is only asked for its version and process. The
    result is stored for this user and in every new recording.

    Example: spillcast calibrate

    Example: spillcast calibrate --postgres 'host=/run/postgresql dbname=dw'
    """
    from spillcast.document import written
    from spillcast.errors import OptionConflict
    from spillcast.report.machine import machine_page

    if show and postgres is not None:
        raise OptionConflict("--show and --postgres: --show runs nothing, give one")
    calibration = _kept() if show else _measured(work, repeat, queries, postgres)
    return Answer(lambda: written(calibration), lambda: machine_page(calibration))


def _kept() -> "Calibration":
    from spillcast.errors import CalibrationMissing
    from spillcast.recording.calibration import calibration_path, kept_calibration

    calibration = kept_calibration()
    if calibration is None:
        message = f"{calibration_path()}: there is no calibration for this machine as it is now"
        raise CalibrationMissing(message, "run `spillcast calibrate`, three minutes")
    return calibration


def _measured(work: Work, repeat: int, queries: int | None, postgres: str | None) -> "Calibration":
    from spillcast.cli.progress import TerminalStage
    from spillcast.lab.machine import measure_machine
    from spillcast.recording.calibration import calibration_path, keep

    # Whether it can be kept is known before the work.
    calibration_path().parent.mkdir(parents=True, exist_ok=True)
    with TerminalStage() as stage:
        calibration = measure_machine(stage, work, repeat, queries, postgres)
    keep(calibration)
    return calibration
