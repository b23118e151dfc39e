"""What a page is made of: plain documents and nothing else, so that they can be redacted."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spillcast.document import read
from spillcast.engines.ranking import SCHEMA as SERVER_SCHEMA
from spillcast.engines.ranking import ServerRanking
from spillcast.errors import EvidenceUnknown, FileTooLarge, InputError, SchemaUnsupported
from spillcast.forecast import Forecast
from spillcast.gate import bounded, damaged, json_of, text_of
from spillcast.report.html import forms
from spillcast.storage.storage import StorageDocument

Document = dict[str, Any]
#: The list of Inputs where documents of a schema go.
_LISTS = {
    "spillcast.profile/1": "profiles",
    "spillcast.forecast/1": "forecasts",
    "spillcast.verify/1": "verifications",
    "spillcast.storage/1": "storages",
    "spillcast.sweep/1": "sweeps",
    "spillcast.cache/1": "caches",
    "spillcast.fleet/1": "fleets",
    SERVER_SCHEMA: "servers",
}
#: The type that each must have; of sweeps by kind.
_TYPES: dict[str, type] = {
    "profiles": forms.Profile,
    "forecasts": Forecast,
    "verifications": forms.Verification,
    "storages": StorageDocument,
    "io-size": forms.SizeSweep,
    "memory": forms.MemorySweep,
    "caches": forms.Cache,
    "fleets": forms.Fleet,
    "servers": ServerRanking,
}
AGAIN = "print it again"
#: A larger document is not accepted.
_BYTES_MAX = 32 << 20


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
    sweeps: list[Document] = field(default_factory=list)
    caches: list[Document] = field(default_factory=list)
    fleets: list[Document] = field(default_factory=list)
    verifications: list[Document] = field(default_factory=list)
    servers: list[Document] = field(default_factory=list)

    def add_document(self, name: str, document: Document) -> None:
        """Take what a verb printed with --json. InputError for a form that no page shows."""
        schema = document.get("schema")
        kind = _LISTS.get(str(schema))
        if kind is None:
            raise SchemaUnsupported(
                f"{name}: schema is {schema!r}", f"a report takes {', '.join(_LISTS)}"
            )
        # A ranking names its targets, other documents hold an answer for each.
        parts = [document] if kind == "servers" else document.get("targets", [document])
        if not isinstance(parts, Sequence) or not parts:
            raise damaged(name, "targets are empty or no list", AGAIN)
        for part in parts:
            form = str(part.get("kind")) if kind == "sweeps" and isinstance(part, dict) else kind
            if form not in _TYPES:
                raise damaged(name, f"kind is {form!r}", AGAIN)
            read(_TYPES[form], part, name, AGAIN)
            _check_warnings(part.get("warnings", ()), name)
        # A page makes its own verdict, of all that it shows and with names as it shows them.
        kept = [{k: v for k, v in part.items() if k != "verdict"} for part in parts]
        getattr(self, kind).extend({"name": Path(name).name, **part} for part in kept)


def _check_warnings(warnings: object, name: str) -> None:
    """InputError unless they are messages, alone or with a code."""
    if not isinstance(warnings, list | tuple):
        raise damaged(name, "warnings are no list", AGAIN)
    for warning in warnings:
        message = warning.get("message") if isinstance(warning, Mapping) else warning
        if not isinstance(message, str):
            raise damaged(name, "a warning has no message", AGAIN)


def split_inputs(words: Sequence[str]) -> tuple[list[tuple[str, Document]], list[str]]:
    """Documents of spillcast's verbs among ``words``, by name, and the words that are evidence.

    ``-`` is a document on standard input. InputError for JSON that is cut.
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
    if word == "-":
        name = "standard input"
        content = sys.stdin.buffer.read(_BYTES_MAX + 1)
        text = bounded(content, name, _BYTES_MAX).decode(errors="replace")
    else:
        path = Path(word)
        if path.suffix.lower() != ".json" or not path.is_file():
            return None
        if path.stat().st_size > _BYTES_MAX:
            raise FileTooLarge(f"{word}: too large for a report ({path.stat().st_size:,} bytes)")
        text, name = text_of(path), word
    try:
        content = json_of(text, name, AGAIN)
    except InputError:
        if word != "-" and "spillcast." not in text[:200]:
            return None
        raise
    ours = isinstance(content, Mapping) and str(content.get("schema", "")).startswith("spillcast.")
    if not ours and word == "-":
        raise EvidenceUnknown("standard input: no document of spillcast", "print one with --json")
    return dict(content) if ours else None
