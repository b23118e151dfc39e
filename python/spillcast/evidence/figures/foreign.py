"""Plans of engines that count only bytes of temp files -> the bare figures to give."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spillcast.errors import EvidenceUnsuited, NoTempIo
from spillcast.evidence.figures.choice import Choice
from spillcast.evidence.figures.figures import Figures
from spillcast.evidence.figures.kinds import FOREIGN, WORD
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.units import parse_bytes

#: A usual size of their operations.
_SIZE = "256K"
_FLAGS = re.IGNORECASE | re.MULTILINE


@dataclass(frozen=True)
class Spilled:
    """What the plan of an engine tells: bytes of all operators, and elapsed time as printed."""

    engine: str
    bytes: int
    elapsed: str | None


def read(paths: Sequence[Path], _choice: Choice) -> Figures:
    """InputError, which names the figures to give in place of the plan."""
    (path,) = paths
    spilled = _spilled(unwrapped(text_of(path)))
    if not spilled.bytes:
        raise NoTempIo(f"{path}: this query of {spilled.engine} does not spill")
    elapsed = spilled.elapsed or "ELAPSED"
    raise EvidenceUnsuited(
        f"{path}: a plan of {spilled.engine} counts bytes of temp files and no operations",
        f"give its figures and the size of an operation: "
        f"{WORD}elapsed={elapsed},spilled={spilled.bytes},size={_SIZE}",
    )


def _spilled(text: str) -> Spilled:
    for engine, counter, time in FOREIGN:
        sizes = [re.sub(r"\s", "", match[1]) for match in re.finditer(counter, text, _FLAGS)]
        if sizes:
            total = sum(parse_bytes(size, engine) for size in sizes)
            match = re.search(time, text, _FLAGS)
            elapsed = None if match is None else match[1].replace(" ", "").replace("µ", "u")
            return Spilled(engine, total, elapsed)
    raise ValueError("no counter of spilled bytes")
