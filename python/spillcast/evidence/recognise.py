"""What a text is, by what it holds and never by its name: each kind with a score, the best wins."""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from spillcast.evidence.figures.kinds import READERS, Reader
from spillcast.evidence.tables import table_of
from spillcast.evidence.text import head_of
from spillcast.evidence.unwrap import unwrapped

#: What a person pastes is shorter.
_UNWRAPPED_LENGTH = 1 << 17
#: A table says in its first lines what its columns are.
_HEADING_LENGTH = 1 << 16
#: Lines before a heading: echoed commands and words of a mail.
_HEADING_LINES_MAX = 200
_HEADING = re.compile(r'"?\w+"?(?:,"?\w+"?)+\s*?(?:\n|$)')

_DOCUMENT = re.compile(r'"schema":\s*"spillcast\.')


@dataclass(frozen=True)
class Sample:
    """The beginning of a text: as it stands, and without what was put around it."""

    path: Path
    raw: str
    text: str

    def columns(self) -> set[str]:
        """Names in the first row of a table in CSV, or of an object in JSON, in small letters."""
        start = table_of(self.text)[:_HEADING_LENGTH]
        if start[:1] in ("[", "{"):
            return {name.lower() for name in re.findall(r'"(\w+)"\s*:', start)}
        heading = start.split("\n", 1)[0]
        separator = max(",;|\t", key=heading.count)
        names = next(csv.reader([heading], delimiter=separator), [])
        return {name.strip().lower() for name in names}


@dataclass(frozen=True)
class Kind:
    """A kind of evidence by its name among the fields of ``Evidence``.

    ``score`` is 0 where a text is no such thing, and the higher the surer it is. ``reader`` is what
    reads it, where several readers make the same of what they read.
    """

    name: str
    words: str
    score: Callable[[Sample], float]
    reader: Reader | None = None


@dataclass(frozen=True)
class Recognised:
    """The kind that a file is most likely of."""

    kind: Kind
    score: float


def recognise(path: Path) -> Recognised | None:
    """The kind of a file; None where it is none that is known. InputError where it is damaged."""
    raw = head_of(path)
    sample = Sample(path, raw, unwrapped(raw[:_UNWRAPPED_LENGTH]) + raw[_UNWRAPPED_LENGTH:])
    scores = [(kind.score(sample), -at) for at, kind in enumerate(KINDS)]
    score, at = max(scores)
    best = KINDS[-at]
    return Recognised(best, score) if score > 0 else None


def marks(**weights: str) -> Callable[[Sample], float]:
    """The sum of the weights, in tenths, of those patterns that a text holds: ``w30=pattern``."""
    patterns = [(int(name[1:3]) / 10, re.compile(text, re.M)) for name, text in weights.items()]
    return lambda sample: sum(
        weight for weight, pattern in patterns if pattern.search(sample.text) is not None
    )


def columns(score: float, *groups: str) -> Callable[[Sample], float]:
    """The score of a table that has a column of each group, whose names are put apart by blanks."""
    wanted = [set(group.split()) for group in groups]

    def scored(sample: Sample) -> float:
        present = sample.columns()
        return score if all(group & present for group in wanted) else 0.0

    return scored


def _figures(reader: Reader, score: float) -> Callable[[Sample], float]:
    return lambda sample: score * reader.known(sample.text)


def _parameters(sample: Sample) -> float:
    return 1.0 if "db_block_size" in sample.text[:4096].lower() else 0.0


def _json(sample: Sample) -> float:
    """Any JSON but documents of spillcast."""
    start = sample.text.lstrip()[:_HEADING_LENGTH]
    return 0.1 if start[:1] in ("[", "{") and _DOCUMENT.search(start) is None else 0.0


def _parquet(sample: Sample) -> float:
    return 3.0 if sample.raw.startswith("PAR1") else 0.0


def _samples(sample: Sample) -> float:
    """A heading of ASH's columns, also below what a client echoed or what a mail says."""
    for line in islice(sample.text[:_HEADING_LENGTH].split("\n"), _HEADING_LINES_MAX):
        names = {name.lower() for name in re.split(r'[\s",;|]+', line) if name}
        known = "sample_time" in names and names & {"event", "session_id", "sql_id"}
        if known and all(re.fullmatch(r"[\w#$]+", name) for name in names):
            return 2.0
    return 0.0


def _export(sample: Sample) -> float:
    """A table that is nothing else: samples of ASH are asked for what they lack by their reader."""
    return 0.2 if _HEADING.match(sample.text.lstrip()[:_HEADING_LENGTH]) is not None else 0.0


KINDS: Sequence[Kind] = (
    Kind(
        "plans",
        "a plan of EXPLAIN or a log of PostgreSQL",
        marks(
            w20=r"\(cost=\d[\d.]*\.\.[\d.]+ rows=\d+ width=\d+\)|\(actual (?:time|rows)=",
            w21=r'"Plan":\s*\{',
            w22=r"<explain|^- Plan:|^ *Plan:\s",
            w15=r"\b(?:LOG|ERROR|FATAL|STATEMENT|DETAIL|HINT|CONTEXT|WARNING):  ",
            w23=r'"(?:message|textPayload|log|msg)":\s*"[^"\n]*(?:LOG:  |ms  plan:)',
            w24=r'temporary file: path \\?"',
            w25=r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \w+,(?:[^,\n]*,){10}(?:LOG|ERROR|FATAL)",
            w05=r"QUERY PLAN|Buffers: |Planning [Tt]ime: ",
            w10=r"(?:Execution [Tt]ime|Total runtime): [\d.]+ ms|ms\s+plan:",
        ),
    ),
    Kind(
        "statements",
        "rows of pg_stat_statements",
        columns(4.0, "temp_blks_written temp_blks_read", "calls total_time total_exec_time query"),
    ),
    Kind(
        "statements",
        "rows of pg_stat_statements",
        columns(1.0, "temp_blks_written temp_blks_read"),
    ),
    *(
        Kind("figures", f"figures ({reader.module})", _figures(reader, 6.0 - at / 4), reader)
        for at, reader in enumerate(READERS)
    ),
    Kind("parameters", "parameters of a database", _parameters),
    Kind("work_areas", "work areas", columns(2.0, "number_passes", "operation_type")),
    Kind("temp_usage", "temp usage", columns(2.0, "segtype", "extents")),
    Kind("statistics", "statistics of sessions", columns(2.0, "accumulated", "value")),
    Kind("ash", "an ASH export", columns(2.0, "sample_time", "event session_id sql_id")),
    Kind("ash", "an ASH export", _samples),
    Kind("ash", "an ASH export", _parquet),
    Kind("ash", "an ASH export", _export),
    Kind("plans", "a plan of EXPLAIN", _json),
    Kind(
        "traces",
        "an extended SQL trace",
        marks(
            w30=r"^(?:WAIT|PARSING IN CURSOR|EXEC|FETCH|PARSE|STAT|CLOSE) #\d",
            w02=r"#\d|\*\*\*|\0",
        ),
    ),
)  # fmt: skip
