"""The inputs of a page as values: runs, latencies of targets, and documents that verbs printed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from spillcast.cache.simulation import CacheResult
from spillcast.document import key, read
from spillcast.engines.ranking import HISTORY_SCHEMA, ServerRanking
from spillcast.engines.ranking import SCHEMA as SERVER_SCHEMA
from spillcast.errors import FileTooLarge, InputError, SchemaUnsupported
from spillcast.evidence.open import STDIN, rereadable
from spillcast.evidence.text import head_of
from spillcast.fleet import Fleet
from spillcast.forecast import Forecast
from spillcast.forecast.sizing.products import Sizing
from spillcast.gate import json_of, objects_in, reading, text_of
from spillcast.lab import SWEEP_SCHEMA
from spillcast.lab.case import VERIFY_SCHEMA, Verification
from spillcast.lab.io_size import IoSizeSweep
from spillcast.lab.memory_result import MemorySweep
from spillcast.profile.result import Profile
from spillcast.profile.timeline import Timeline
from spillcast.storage.storage import STORAGE_SCHEMA, Group, Storage
from spillcast.units import format_count

Document = Mapping[str, Any]
Kind = TypeVar("Kind")
AGAIN = "print it again"
#: Maximum size of a document.
_BYTES_MAX = 32 << 20
#: The first bytes of a document, which contain its schema.
_HEAD_BYTES = 200
#: The title and the type of each schema (for a sweep, of each kind), in page order.
KINDS: dict[str, tuple[str, type]] = {
    Forecast.SCHEMA: ("Forecast", Forecast),
    Sizing.SCHEMA: ("Size", Sizing),
    SERVER_SCHEMA: ("Server", ServerRanking),
    Fleet.SCHEMA: ("Fleet", Fleet),
    f"{SWEEP_SCHEMA} io-size": ("Sweep", IoSizeSweep),
    f"{SWEEP_SCHEMA} memory": ("Sweep", MemorySweep),
    CacheResult.SCHEMA: ("Cache", CacheResult),
    VERIFY_SCHEMA: ("Verification", Verification),
    Profile.SCHEMA: ("Profile", Profile),
    STORAGE_SCHEMA: ("Storage", Storage),
}


@dataclass(frozen=True)
class Histogram:
    """The latencies of one operation: middles of buckets (ns) and operations in each."""

    label: str
    op: str | None
    latency_ns: Sequence[int]
    latency_count: Sequence[int]


@dataclass(frozen=True)
class StorageLatencies:
    """Latencies of a storage by operation; empty if its figures are of another load."""

    name: str
    groups: Sequence[Histogram]


@dataclass(frozen=True)
class StatementText:
    """A statement that a run ran, and its share of the time."""

    sql_id: str | None
    text: str
    share: float | None


@dataclass(frozen=True)
class Fact:
    """A fact about the measurement of a run. redact.py lists the labels whose values pass."""

    label: str
    value: str


@dataclass(frozen=True)
class Functions:
    """Functions on CPU, from ``samples`` of stacks: rows and the frames of a flame graph."""

    samples: int
    drawn_s: float
    words: Sequence[str]
    rows: Sequence[Document]
    frames: Sequence[Document]


@dataclass(frozen=True, kw_only=True)
class RunContents:
    """The contents of a recording, of traces or of an ASH export; times in s.

    ``time_s`` is the time of all sessions, to which shares refer. ``sessions_are`` is their noun:
    threads, processes or sessions. ``events`` is a profile by wait event.
    """

    name: str
    kind: str
    capture: str | None = key("", optional=True)
    elapsed_s: float
    time_s: float
    sessions_are: str
    timeline: Timeline
    latencies: Sequence[Histogram] = ()
    operations: Sequence[Group] = ()
    events: Profile | None = None
    functions: Functions | None = key("", optional=True)
    statements: Sequence[StatementText] = ()
    about: Sequence[Fact] = ()
    warnings: Sequence[str] = ()


@dataclass
class Inputs:
    """Runs, the latencies of targets, and documents with the names of their files."""

    runs: list[RunContents] = field(default_factory=list)
    latencies: list[StorageLatencies] = field(default_factory=list)
    documents: list[tuple[str, Any]] = field(default_factory=list)

    def add_document(self, name: str, document: Document) -> None:
        """Add a document printed by --json. InputError for a schema that is not shown on pages."""
        with reading(name, AGAIN):
            self._add(name, document)

    def _add(self, name: str, document: Document) -> None:
        schema = document.get("schema")
        if schema == HISTORY_SCHEMA:
            for server in objects_in(document, "servers"):
                self._add(name, server)
            return
        if schema == SWEEP_SCHEMA:
            schema = f"{schema} {document.get('kind')}"
        if schema not in KINDS:
            raise SchemaUnsupported(f"schema is {schema!r}", f"a report takes {', '.join(KINDS)}")
        if schema == STORAGE_SCHEMA:
            storage = Storage.from_json(document)
            self.documents.append((storage.name, storage))
            return
        # A ranking only names its targets; other documents contain an answer for each target.
        parts: Sequence[Document] = [document]
        if "targets" in document and schema != SERVER_SCHEMA:
            parts = objects_in(document, "targets")
        _, kind = KINDS[schema]
        self.documents += [(Path(name).name, read(kind, part)) for part in parts]

    def first(self, upper: int) -> tuple["Inputs", list[str]]:
        """At most ``upper`` runs, queries and documents of a kind; and sentences about the rest.

        Queries are distinguished by their time today; the longest are kept.
        """
        queries = sorted({f.baseline_s for f in self.of_type(Forecast)}, reverse=True)
        longest = set(queries[:upper])
        titles = {kind: title.lower() for title, kind in KINDS.values()}
        counts, documents = Counter({"run": len(self.runs)}), []
        for name, value in self.documents:
            if isinstance(value, Forecast):
                is_shown = value.baseline_s in longest
            else:
                counts[titles[type(value)]] += 1
                is_shown = counts[titles[type(value)]] <= upper
            if is_shown:
                documents.append((name, value))
        left_out = [
            f"The page has room for the first {upper:,} of {format_count(count, kind)}."
            for kind, count in counts.items()
            if count > upper
        ]
        if len(queries) > upper:
            shown = f"{upper:,} of {format_count(len(queries), 'query')}"
            left_out.append(f"The page has room for the {shown} that take the longest.")
        return Inputs(self.runs[:upper], self.latencies, documents), left_out

    def of_type(self, kind: type[Kind]) -> list[Kind]:
        """The documents of a type."""
        return [value for _, value in self.documents if isinstance(value, kind)]


def split_inputs(words: Sequence[str]) -> tuple[list[tuple[str, Document]], list[str]]:
    """Documents that verbs of spillcast printed, by name, and the arguments that are evidence.

    ``-`` is standard input. InputError for a document that is truncated or too large.
    """
    pairs = [(word, _document_of(word)) for word in words]
    documents = [(word, document) for word, document in pairs if document is not None]
    return documents, [word for word, document in pairs if document is None]


def _document_of(word: str) -> Document | None:
    """The document in a file; None for a file of another program, such as a plan in JSON."""
    path = rereadable(word)
    if not (path == STDIN or path.suffix.lower() == ".json") or not path.is_file():
        return None
    is_ours = "spillcast." in head_of(path, _HEAD_BYTES)
    if path == STDIN and not is_ours:
        return None
    if (size := path.stat().st_size) > _BYTES_MAX:
        raise FileTooLarge(f"too large for a report ({size:,} bytes)", where=path)
    try:
        with reading(path, AGAIN):
            content = json_of(text_of(path))
    except InputError:
        if is_ours:
            raise
        return None
    schema = content.get("schema") if isinstance(content, Mapping) else None
    return content if str(schema).startswith("spillcast.") else None
