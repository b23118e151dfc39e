"""What a page is made of: plain documents and nothing else, so that they can be redacted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spillcast.errors import InputError

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
}
#: What a page cannot do without, by room.
_NEEDED = {
    "profiles": ("by", "elapsed_s", "rows"),
    "forecasts": ("target", "baseline_s", "forecast_s", "interval_s", "confidence", "ceiling_s",
                  "speedup", "terms", "warnings", "refused"),
    "verifications": ("cases",),
    "storages": ("name", "source", "groups"),
    "sweeps": ("kind",),
    "caches": ("cache", "curve"),
    "fleets": ("target", "statements", "databases", "days", "saved_s", "saved_interval_s"),
}  # fmt: skip
_NEEDED_OF_SWEEP = {"io-size": ("storage", "rows", "best"), "memory": ("points",)}
#: A document of more bytes is no report's matter.
_DOCUMENT_BYTES_MAX = 64 << 20


@dataclass
class Material:
    """Documents by kind; ``runs`` are what recordings, traces and ASH exports tell (run.py).

    ``latencies`` are those of targets: ``name`` and ``groups`` as in a run. ``secrets`` are texts
    that a redacted page must not hold, by kind: ``host``, ``path`` and ``sql``.
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
    secrets: dict[str, list[str]] = field(default_factory=dict)

    def add_document(self, name: str, document: Document) -> None:
        """Take what a verb printed with --json. InputError for a form that no page shows."""
        schema = document.get("schema")
        room = _ROOMS.get(str(schema))
        if room is None:
            hint = f"a report is made of {', '.join(_ROOMS)}"
            raise InputError(f"{name}: schema is {schema!r}", hint)
        parts = document.get("targets", [document])
        for part in parts:
            needed = _NEEDED[room] + _NEEDED_OF_SWEEP.get(str(part.get("kind")), ())
            if missing := [key for key in needed if key not in part]:
                raise InputError(f"{name}: damaged: it lacks {missing[0]}", "print it again")
        getattr(self, room).extend({"name": Path(name).name, **part} for part in parts)

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


def _document_of(word: str) -> Document | None:
    if word == "-":
        import sys

        text, name = sys.stdin.read(), "standard input"
    else:
        path = Path(word)
        if path.suffix.lower() != ".json" or not path.is_file():
            return None
        if path.stat().st_size > _DOCUMENT_BYTES_MAX:
            raise InputError(f"{word}: too large for a report ({path.stat().st_size:,} bytes)")
        text, name = path.read_text(errors="replace"), word
    try:
        found = json.loads(text)
    except ValueError as error:
        if word != "-" and "spillcast." not in text[:200]:
            return None
        raise InputError(f"{name}: not JSON, or cut: {error}", "print it again") from error
    ours = isinstance(found, Mapping) and str(found.get("schema", "")).startswith("spillcast.")
    if not ours and word == "-":
        raise InputError("standard input: no document of spillcast", "print one with --json")
    return dict(found) if ours else None
