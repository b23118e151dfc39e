"""What a page is made of: plain documents and nothing else, so that they can be redacted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from spillcast.cache.result import CACHE_SCHEMA, CacheResult
from spillcast.document import read
from spillcast.engines.ranking import HISTORY_SCHEMA, ServerRanking
from spillcast.engines.ranking import SCHEMA as SERVER_SCHEMA
from spillcast.errors import FileTooLarge, InputError, SchemaUnsupported
from spillcast.evidence.pipes import STDIN, repeatable
from spillcast.evidence.text import head_of
from spillcast.fleet.result import FLEET_SCHEMA, Fleet
from spillcast.forecast import Forecast
from spillcast.forecast.result import FORECAST_SCHEMA
from spillcast.forecast.sizing.products import SIZE_SCHEMA, Sizing
from spillcast.gate import damaged, json_of, text_of
from spillcast.lab.case import VERIFY_SCHEMA, Verification
from spillcast.lab.io_size.sweep import SWEEP_SCHEMA
from spillcast.lab.io_size.sweep import Sweep as IoSizeSweep
from spillcast.lab.memory_result import Sweep as MemorySweep
from spillcast.profile.result import PROFILE_SCHEMA, Profile
from spillcast.storage.storage import STORAGE_SCHEMA, Storage

Document = dict[str, Any]
Known = TypeVar("Known")
AGAIN = "print it again"
#: A larger document is not accepted.
_BYTES_MAX = 32 << 20
#: The beginning of a document names its schema.
_HEAD_BYTES = 200


#: The list of Inputs where documents of a schema go, and their type; of a sweep, by its kind.
_KINDS: dict[str, tuple[str, type]] = {
    PROFILE_SCHEMA: ("profiles", Profile),
    FORECAST_SCHEMA: ("forecasts", Forecast),
    VERIFY_SCHEMA: ("verifications", Verification),
    STORAGE_SCHEMA: ("storages", Storage),
    f"{SWEEP_SCHEMA} io-size": ("io_sizes", IoSizeSweep),
    f"{SWEEP_SCHEMA} memory": ("memory_sweeps", MemorySweep),
    CACHE_SCHEMA: ("caches", CacheResult),
    FLEET_SCHEMA: ("fleets", Fleet),
    SIZE_SCHEMA: ("sizes", Sizing),
    SERVER_SCHEMA: ("servers", ServerRanking),
}


@dataclass
class Inputs:
    """Documents by kind; ``runs`` are what recordings, traces and ASH exports hold (runs.py).

    ``latencies`` are those of targets: ``name`` and ``groups`` as in a run.
    """

    runs: list[Document] = field(default_factory=list)
    forecasts: list[Document] = field(default_factory=list)
    latencies: list[Document] = field(default_factory=list)
    profiles: list[Document] = field(default_factory=list)
    storages: list[Document] = field(default_factory=list)
    io_sizes: list[Document] = field(default_factory=list)
    memory_sweeps: list[Document] = field(default_factory=list)
    caches: list[Document] = field(default_factory=list)
    fleets: list[Document] = field(default_factory=list)
    verifications: list[Document] = field(default_factory=list)
    servers: list[Document] = field(default_factory=list)
    sizes: list[Document] = field(default_factory=list)

    def add_document(self, name: str, document: Document) -> None:
        """Take what a verb printed with --json. InputError for a form that no page shows."""
        schema = document.get("schema")
        if schema == HISTORY_SCHEMA:
            servers = document.get("servers")
            if not isinstance(servers, Sequence) or not servers:
                raise damaged(name, "servers are empty or no list", AGAIN)
            for server in servers:
                self.add_document(name, server)
            return
        if schema == SWEEP_SCHEMA:
            schema = f"{schema} {document.get('kind')}"
        if schema not in _KINDS:
            raise SchemaUnsupported(
                f"{name}: schema is {schema!r}", f"a report takes {', '.join(_KINDS)}"
            )
        kind, form = _KINDS[schema]
        # A ranking names its targets, other documents hold an answer for each.
        parts = [document] if kind == "servers" else document.get("targets", [document])
        if not isinstance(parts, Sequence) or not parts:
            raise damaged(name, "targets are empty or no list", AGAIN)
        for part in parts:
            read(form, part, name, AGAIN)
        # A page makes its own verdict, of all that it shows and with names as it shows them.
        kept = [{k: v for k, v in part.items() if k != "verdict"} for part in parts]
        getattr(self, kind).extend({"name": Path(name).name, **part} for part in kept)

    def known(self, kind: type[Known]) -> list[Known]:
        """The documents of a kind."""
        [documents] = [getattr(self, name) for name, form in _KINDS.values() if form is kind]
        return [read(kind, document, document["name"], AGAIN) for document in documents]

    def known_storages(self) -> list[Storage]:
        """The storages, whose sources are more than the documents name."""
        return [
            Storage.from_json({"schema": STORAGE_SCHEMA, **document}, document["name"])
            for document in self.storages
        ]


def split_inputs(words: Sequence[str]) -> tuple[list[tuple[str, Document]], list[str]]:
    """Documents of spillcast's verbs among ``words``, by name, and the words that are evidence.

    ``-`` is standard input. InputError for JSON that is cut.
    """
    documents, evidence = [], []
    for word in words:
        document = _document_of(word)
        if document is None:
            evidence.append(word)
        else:
            documents.append((word, document))
    return documents, evidence


def _document_of(word: str) -> Document | None:
    path = repeatable(word)
    if not (path == STDIN or path.suffix.lower() == ".json") or not path.is_file():
        return None
    ours = "spillcast." in head_of(path, _HEAD_BYTES)
    if path == STDIN and not ours:
        return None
    if path.stat().st_size > _BYTES_MAX:
        raise FileTooLarge(f"{path}: too large for a report ({path.stat().st_size:,} bytes)")
    try:
        content = json_of(text_of(path), path, AGAIN)
    except InputError:
        if ours:
            raise
        return None
    ours = isinstance(content, Mapping) and str(content.get("schema", "")).startswith("spillcast.")
    return dict(content) if ours else None
