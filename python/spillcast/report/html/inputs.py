"""What a page is made of: plain documents and nothing else, so that they can be redacted."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import GenericAlias
from typing import Any

from spillcast.document import key, read
from spillcast.engines.ranking import HISTORY_SCHEMA, ServerRanking
from spillcast.engines.ranking import SCHEMA as SERVER_SCHEMA
from spillcast.errors import EvidenceUnknown, FileTooLarge, InputError, SchemaUnsupported
from spillcast.forecast import Forecast
from spillcast.forecast.sizing.products import SIZE_SCHEMA, Sizing
from spillcast.gate import bounded, damaged, json_of, text_of
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
    SIZE_SCHEMA: "sizes",
    SERVER_SCHEMA: "servers",
}
AGAIN = "print it again"
#: A larger document is not accepted.
_BYTES_MAX = 32 << 20


def _shape(keys: Mapping[str, Any]) -> Any:
    """A type for ``document.read``; keys with ``?`` may lack, numbers with ``-`` be negative."""
    parts = [
        (name.rstrip("?-"), kind, key("", signed="-" in name, optional="?" in name))
        for name, kind in keys.items()
    ]
    return make_dataclass("Shape", parts, frozen=True, kw_only=True)


def _rows(keys: Mapping[str, Any]) -> Any:
    return GenericAlias(Sequence, (_shape(keys),))


_INTERVAL = tuple[float, float] | None
_NUMBER = float | None
_PROFILE_ROW = dict.fromkeys(
    ("total_us?", "count?", "share?", "mean_us?", "p50_us?", "p95_us?", "p99_us?", "max_us?",
     "latency_us?"),
    _NUMBER,
)  # fmt: skip
_CALLS = _shape(dict.fromkeys(("count?", "mean_us?", "total_s?"), _NUMBER))
_SIZES: dict[str, Any] = {"min_bytes": int, "max_bytes": int, "total_s": float}
_SIZES_ROW = _SIZES | {"reads?": _CALLS | None, "writes?": _CALLS | None, "interval_s?": _INTERVAL}
_TRAFFIC: dict[str, Any] = {
    "flash_read_bytes": float, "disk_read_bytes": float, "flash_write_bytes": float,
    "disk_write_bytes": float, "elapsed_s?": _NUMBER,
}  # fmt: skip
_ACCOUNT = {"object": str, "requests": int, "bytes": float, "hits": int}
_SAVING: dict[str, Any] = {
    "database": str, "elapsed_s": float, "temp_s": float, "saved_s-": _NUMBER,
    "saved_interval_s-": _INTERVAL, "share-": float,
}  # fmt: skip
_SHAPES: dict[str, dict[str, Any]] = {
    "profiles": {
        "by": Sequence[str], "elapsed_s": float, "rows": _rows(_PROFILE_ROW),
        "words?": Sequence[str],
    },
    "verifications": {
        "cases": _rows({
            "forecast": _shape({"forecast_s": _NUMBER, "interval_s": _INTERVAL}),
            "measured_to_s": float, "engine": str, "workload": str, "threads": int,
            "direction": str,
        }),
    },
    "io-size": {
        "storage": str, "rows": _rows(_SIZES_ROW), "best": _shape(_SIZES),
        "advice?": _rows({"engine": str, "text": str}),
    },
    "memory": {
        "points": _rows({
            "storage": str, "memory_bytes": int, "elapsed_s": _NUMBER, "measured": bool,
            "interval_s?": _INTERVAL, "reads?": int | None, "writes?": int | None,
            "spilled_bytes?": _NUMBER,
        }),
        "turns?": _rows({"to": str, "memory_bytes": int}),
    },
    "caches": {
        "cache": _shape({
            "size_bytes": int, "policy": str, "without": _shape(_TRAFFIC),
            "runs": _rows(
                _TRAFFIC | {"hit_ratio": float, "accounts": _rows(_ACCOUNT)}
            ),
        }) | None,
        "curve": _shape({
            "size_bytes": Sequence[float], "miss_ratio": Sequence[float], "data_bytes": float,
            "enough_bytes": _NUMBER,
        }),
    },
    "fleets": {
        "target": str, "confidence": float, "statements_for_most": int, "most": float,
        "saved_s-": float, "saved_interval_s-": tuple[float, float],
        "statements": _rows(
            _SAVING | {"sql": str, "cumulative_share": float, "refused": str | None}
        ),
        "databases": _rows(_SAVING | {"statements": int, "saved_s-": float}),
        "days": _rows({"day": str, "temp_s": float, "saved_s-": float}),
    },
}  # fmt: skip
#: The type that each must have, as far as a page shows it; of sweeps by kind.
_TYPES: dict[str, Any] = {
    "forecasts": Forecast,
    "storages": StorageDocument,
    "servers": ServerRanking,
    "sizes": Sizing,
    **{kind: _shape(keys) for kind, keys in _SHAPES.items()},
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
    sweeps: list[Document] = field(default_factory=list)
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
