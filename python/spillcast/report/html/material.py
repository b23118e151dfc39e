"""What a page is made of: plain documents and nothing else, so that they can be redacted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spillcast.document import read
from spillcast.engines.ranking import SCHEMA as SERVER_SCHEMA
from spillcast.engines.ranking import ServerRanking
from spillcast.errors import InputError
from spillcast.forecast.result import Forecast
from spillcast.gate import bounded, damaged, json_of, text_of
from spillcast.profile.result import CALL, DIMENSIONS, ROW_SOURCE
from spillcast.recording.row_sources import may_spill
from spillcast.report.html import forms
from spillcast.storage.storage import StorageDocument

Document = dict[str, Any]
#: Where documents of a schema go, by the schema's name.
_ROOMS = {
    "spillcast.profile/1": "profiles",
    "spillcast.forecast/1": "forecasts",
    "spillcast.verify/1": "verifications",
    "spillcast.storage/1": "storages",
    "spillcast.sweep/1": "sweeps",
    "spillcast.cache/1": "caches",
    "spillcast.fleet/1": "fleets",
    SERVER_SCHEMA: "servers",
}
#: What is checked of them, by room, and of sweeps by kind.
_FORMS: dict[str, type] = {
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
#: A document of more bytes is no report's matter.
_DOCUMENT_BYTES_MAX = 32 << 20


@dataclass
class Material:
    """Documents by kind; ``runs`` are what recordings, traces and ASH exports tell (run.py).

    ``latencies`` are those of targets: ``name`` and ``groups`` as in a run. ``secrets`` are texts
    that a redacted page must not hold, by kind: ``host``, ``path``, ``sql``, ``database``
    and ``user``.
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
    secrets: dict[str, list[str]] = field(default_factory=dict)

    def add_document(self, name: str, document: Document) -> None:
        """Take what a verb printed with --json. InputError for a form that no page shows."""
        schema = document.get("schema")
        room = _ROOMS.get(str(schema))
        if room is None:
            hint = f"a report is made of {', '.join(_ROOMS)}"
            raise InputError(f"{name}: schema is {schema!r}", hint)
        # A ranking names its targets, other documents hold an answer for each.
        parts = [document] if room == "servers" else document.get("targets", [document])
        if not isinstance(parts, Sequence) or not parts:
            raise damaged(name, "targets are empty or no list", AGAIN)
        for part in parts:
            kind = str(part.get("kind")) if room == "sweeps" and isinstance(part, dict) else room
            if kind not in _FORMS:
                raise damaged(name, f"kind is {kind!r}", AGAIN)
            read(_FORMS[kind], part, name, AGAIN)
            _check_warnings(part.get("warnings", ()), name)
            if room == "profiles":
                self._hide_keys(part)
            if room == "servers":
                self.add_secret("database", *(one["name"] for one in part["databases"]))
                self.add_secret("sql", part["source"], part["record"], *part["enable"])
        # A page makes its own verdict, of all that it shows and with names as it shows them.
        kept = [{k: v for k, v in part.items() if k != "verdict"} for part in parts]
        getattr(self, room).extend({"name": Path(name).name, **part} for part in kept)

    def _hide_keys(self, profile: Document) -> None:
        """Values of expressions may be of statements; what a plan works on has names of others."""
        known = {*DIMENSIONS, ROW_SOURCE, CALL}
        asked = [name for name in profile["by"] if name not in known]
        for row in profile["rows"]:
            values = [row.get(name) for name in asked]
            self.add_secret("sql", *(value for value in values if isinstance(value, str)))
            operation = row.get("operation")
            if isinstance(operation, str) and not may_spill(operation):
                self.add_secret("object", operation)

    def add_secret(self, kind: str, *texts: str | None) -> None:
        """Note what a redacted page must not hold."""
        self.secrets.setdefault(kind, []).extend(text for text in texts if text)


def split_inputs(words: Sequence[str]) -> tuple[list[tuple[str, Document]], list[str]]:
    """Documents of our own verbs among ``words``, by name, and the words that are evidence.

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


def _check_warnings(warnings: object, name: str) -> None:
    """InputError unless they are what any of our documents has: messages, alone or with a code."""
    if not isinstance(warnings, list | tuple):
        raise damaged(name, "warnings are no list", AGAIN)
    for warning in warnings:
        message = warning.get("message") if isinstance(warning, Mapping) else warning
        if not isinstance(message, str):
            raise damaged(name, "a warning has no message", AGAIN)


def _document_of(word: str) -> Document | None:
    if word == "-":
        import sys

        name = "standard input"
        content = sys.stdin.buffer.read(_DOCUMENT_BYTES_MAX + 1)
        text = bounded(content, name, _DOCUMENT_BYTES_MAX).decode(errors="replace")
    else:
        path = Path(word)
        if path.suffix.lower() != ".json" or not path.is_file():
            return None
        if path.stat().st_size > _DOCUMENT_BYTES_MAX:
            raise InputError(f"{word}: too large for a report ({path.stat().st_size:,} bytes)")
        text, name = text_of(path), word
    try:
        found = json_of(text, name, AGAIN)
    except InputError:
        if word != "-" and "spillcast." not in text[:200]:
            return None
        raise
    ours = isinstance(found, Mapping) and str(found.get("schema", "")).startswith("spillcast.")
    if not ours and word == "-":
        raise InputError("standard input: no document of spillcast", "print one with --json")
    return dict(found) if ours else None
