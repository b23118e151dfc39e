"""The TARGET of a forecast: a word on the command line -> a storage."""

from pathlib import Path

from spillcast.errors import InputError
from spillcast.recording import Recording
from spillcast.storage.observed import asked_latency, observed
from spillcast.storage.probe import BUDGET_S, Progress, probe
from spillcast.storage.storage import Storage
from spillcast.units import parse_duration_s, parse_factor

FORMS = "a directory, a storage.json, a recording, latency:150us, or factor:60"


def resolve(
    text: str,
    baseline: Recording,
    *,
    budget_s: float = BUDGET_S,
    on_progress: Progress | None = None,
) -> Storage:
    """The storage that ``text`` names. A directory is probed now, with the I/O of ``baseline``."""
    kind, colon, value = text.partition(":")
    if colon and kind == "latency":
        return asked_latency(observed(baseline), parse_duration_s(value), text)
    if colon and kind == "factor":
        factor = parse_factor(text, value)
        return observed(baseline).scaled(1 / factor, text)
    path = Path(text)
    if (path / "meta.json").is_file():
        return observed(Recording.open(path))
    if path.is_dir():
        return probe(path, baseline, budget_s=budget_s, on_progress=on_progress)
    if path.is_file():
        return Storage.load(path)
    raise InputError(f"--to {text}: there is no such file or directory", f"a target is {FORMS}")
