"""Replaces SQL, bind values and names in documents by placeholders.

A text passes only if its key is listed in this file and the text matches the pattern of that key.
Every other text is replaced. Numbers pass.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import is_dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from spillcast.document import keys_of
from spillcast.evidence.oracle.ash_profile import ON_CPU
from spillcast.fleet.dataset import UNKNOWN
from spillcast.forecast.caveat import explanations
from spillcast.forecast.remaining.progress import (
    CALLS_SOURCE,
    FILES_SOURCE,
    HISTORY_SOURCE,
    PLAN_SOURCE,
)
from spillcast.forecast.result import CHANGES, DATA_READS, QUOTA, RECORDING, RUN_QUEUE
from spillcast.forecast.spark import TERMS as APPLICATION_TERMS
from spillcast.forecast.spark.simulated import BOUNDS
from spillcast.profile import Profile
from spillcast.profile.result import CALL, DIMENSIONS, FUNCTION, ROW_SOURCE
from spillcast.profile.timeline import STATES
from spillcast.recording import WRITEBACK
from spillcast.recording.capture import SOURCES
from spillcast.report.html.inputs import Fact, Inputs
from spillcast.storage import Storage
from spillcast.storage.catalogue import rows_by_name
from spillcast.storage.source import StorageSource, source_of

#: The placeholder of a sentence.
LEFT_OUT = "the words are left out of this page, for they may quote names"
_EVENT_KEYS = {"event", "label", "busy", "totals_s", "terms.name"}
#: Names of terms besides wait events.
TERMS = (
    *("CPU", "CPU and other waits", "temp read", "temp write"),
    *(CHANGES, DATA_READS, QUOTA, RECORDING, RUN_QUEUE, WRITEBACK, *APPLICATION_TERMS),
)
_VERSION = r"\d+(?:\.\d+)*"
#: The pattern of notes about events of a server.
NOTE = (
    rf"PostgreSQL {_VERSION} instead of {_VERSION}|the server was restarted|"
    r"pg_stat_statements (?:was reset: spills of statements are a lower bound|was not there: no "
    r"statement was counted|evicted statements [\d,]+ times; raise its max)|"
    r"statements of others are not counted: grant pg_monitor to this role|"
    r"(?:work_mem|hash_mem_multiplier) was changed from [\d.]+ to [\d.]+|"
    r"the server's clock jumped by [+-][\d,]+ s|"
    rf"another instance, PostgreSQL {_VERSION}: counted from here on"
)
#: Key -> the pattern of its texts that do not identify anyone.
_FORMS = {
    "schema": r"spillcast\.[a-z]+/\d",
    "op": "read|write|temp|wait",
    "kind": "recording|traces|ASH|io-size|memory|sort|hash|hash aggregate|store|new|more|less"
    "|version|restart|reset|evicted|uncounted|hidden|work_mem|hash_mem_multiplier|clock|instance",
    "source": "grid|probe|catalogue|recording|asked|cache|"
    + "|".join((HISTORY_SOURCE, CALLS_SOURCE, PLAN_SOURCE, FILES_SOURCE)),
    "method": "counts|threads|trace|report|figures|explain|rehearsed|spark",
    "capture": "|".join((*map(re.escape, SOURCES), "none")),
    "policy": "lru|keep|sieve|s3-fifo",
    "class": "scan|index|temp|(?:temp )?(?:read|write)|other",
    "pattern": "sequential|random|mixed",
    "access": "direct|buffered",
    # Of a fleet's statements, and of a server's changes.
    "evidence": "traces|ash|traces, ash|ash, traces|looks|recording|plan|application|"
    "it ran (?:for the first time|before "
    "without spilling)|(?:rows|table blocks) per call (?:unchanged|[\\d.e+-]+ times)|[\\d.e+-]+ "
    "parallel workers per call planned instead of [\\d.e+-]+|" + NOTE,
    "note": NOTE,
    "cause": f"{'|'.join(BOUNDS)}|"
    "version|setting|rows|plan|statement|"
    "latency|queue|memory|device time|write cache|"
    "(?:iops|throughput|random operations)(?: credits)?",
    "rule": r"(?:temp|files|time|new)\s*>\s*[\d.]+\s*[A-Za-z]*\s*/\s*(?:h|d)\w*",
    "start": r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?",
    "version": _VERSION,
    # Types and details of nodes of PostgreSQL's plans.
    "node": "[A-Z][a-z]+(?: [A-Z][a-z]+){0,2}",
    "detail": r"(?:(?:, )?(?:Sort Method|Hash Batches|HashAgg Batches|Disk Usage|Workers Launched) "
    r"(?:\d+|external (?:sort|merge)|quicksort|top-N heapsort|still in progress))*",
    "direction": "(?:slow|fast) to (?:slow|fast)",
    "sessions_are": "threads|processes|sessions",
    "state": "multi-pass|one-pass|spills|none|no spill|in memory|one pass",
    "day": r"\d{4}-\d\d-\d\d|unknown",
    "measured_at": r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?",
    # Base 32 of Oracle, which has no e, i, l or o.
    "sql_id": r"[0-9abcdfghjkmnpqrstuvwxyz]{13}|-?\d+",
    "database": UNKNOWN,
    "engine": rf"(?:PostgreSQL|DuckDB|Oracle|postgres|duckdb|oracle)(?: {_VERSION})?",
    "workload": "sort|join|hash|aggregate|window",
    "setting": r"iops|throughput|size",
    "value": r"[\d,.]+ (?:B|[KMGT]iB|IOPS|MiB/s|MB/s)",
    # An amount, or the setting that avoids spills.
    "memory": r"[\d,.]+ (?:B|[KMGT]iB)|(?:maintenance_)?work_mem|"
    r"sort_buffer_size or tmp_table_size|max_bytes_\w+(?: and max_bytes_\w+)*",
    "provider": "aws|gcp|azure",
    "currency": r"[A-Z]{3}",
    "price_of": "instance|difference",
    "remark": "with full burst credits|while memory is free|if the plan stays",
    "target": r"tmpfs|work_mem \d+[kMG]B|latency:[\d.]+(?:ns|us|ms|s)|factor:[\d.]+",
    # Facts that html/evidence.py makes only from figures.
    "about.recorded": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
    "about.kernel": rf"{_VERSION}",
    "about.evidence": r"\d+ extended SQL traces? \(10046\)|samples of active sessions \(ASH\)",
    "about.capture": "|".join(re.escape(source.title) for source in SOURCES.values()),
}
#: Rows of html/evidence.py whose values contain only figures and words of spillcast.
FIGURES = {
    "machine", "CPU quota", "peak memory", "lost", "overhead of recording", "covered", "samples",
    "runnable but not scheduled", "sessions", "lines", "damaged rows",
}  # fmt: skip
#: Keys whose texts have the pattern of another key.
_FORM_OF = {
    "baseline_bound_by": "cause",
    "sql": "sql_id", "queryid": "sql_id", "storage": "target", "name": "target",
    "from": "state", "to": "state", "about.engine": "engine", "targets": "target",
    "gains": "target", "spill_s": "target",
    "bound_by": "cause", "size": "value", "iops": "value", "throughput": "value",
}  # fmt: skip
#: Keys of sentences, which may quote arbitrary text.
_SENTENCES = {
    "advice", "because", "message", "refused", "unused", "warnings", "words", "most_because",
    "notes", "prices",
}  # fmt: skip
#: Names of placeholders that differ from the key.
_PLACEHOLDER_OF = {
    "query": "sql", "statement": "sql", "text": "sql", "command": "sql", "failure": "sql",
    "caller": "sql", "target": "storage", "from": "storage", "to": "storage", "name": "input",
    "file": "path", "files": "path", "path": "path", "longest_at": "path", "mount_point": "path",
    "targets": "storage", "gains": "storage", "spill_s": "storage", "source": "server",
    "dataset": "path", "directory": "path", "like": "path", "dbname": "database", "keep": "object",
}  # fmt: skip
#: Settings of a row of the catalogue.
_CATALOGUE = re.compile(r"(?<=[a-z0-9])\?[a-z]+=[\d.]+[KMGT]?(?:&[a-z]+=[\d.]+[KMGT]?)*$")
#: Mappings whose keys are targets.
_KEYED_BY_TARGET = {"gains", "spill_s"}
_COLUMNS = {*DIMENSIONS, ROW_SOURCE, CALL, FUNCTION, "module", "thread"}


def redacted(inputs: Inputs) -> Inputs:
    """The inputs with placeholders; equal texts have the same placeholder everywhere."""
    redactor = Redactor({name for profile in inputs.of_type(Profile) for name in profile.by})
    return Inputs(
        [redactor.value(run, "run") for run in inputs.runs],
        [redactor.value(latencies, "latencies") for latencies in inputs.latencies],
        [
            (redactor.value(name, "name"), redactor.value(value, "document"))
            for name, value in inputs.documents
        ],
    )


class Redactor:
    """Replaces texts by placeholders, such as ``sql-1`` and ``path-2``, and remembers them."""

    def __init__(self, columns: Collection[str] = ()) -> None:
        # Columns of a profile may be expressions, which may contain values.
        self._expressions = set(columns) - _COLUMNS
        self._placeholders: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def value(self, value: Any, key: str) -> Any:
        """The value of a key, of any type, with placeholders for texts in it."""
        if isinstance(value, Mapping):
            return self._mapping(value, key)
        if isinstance(value, list | tuple):
            if key in _SENTENCES and all(isinstance(part, str) for part in value):
                return [LEFT_OUT] if value and key == "warnings" else []
            return type(value)(self.value(part, key) for part in value)
        if isinstance(value, Fact):
            if value.label in FIGURES:
                return value
            return Fact(value.label, self._text(value.value, f"about.{value.label}"))
        if isinstance(value, StorageSource):
            # The name is our own; ``_instance`` derives the description from redacted facts.
            return value
        if is_dataclass(value):
            return self._instance(value, key)
        return self._text(value, key) if isinstance(value, str) else value

    def _instance(self, value: Any, key: str) -> Any:
        """A value of a document's type, without the fields that are not in documents."""
        parts = {
            field.name: self._part(key, about.name or field.name, getattr(value, field.name))
            for field, about in keys_of(type(value))
        }
        if isinstance(value, Storage):
            parts["source"] = source_of(value.source.name, parts["facts"])
        return type(value)(**(parts | _warning_texts(vars(value))))

    def _mapping(self, value: Mapping[str, Any], key: str) -> dict[str, Any]:
        is_text = key in _EVENT_KEYS or key in _KEYED_BY_TARGET
        names = {name: self._text(name, key) if is_text else self._key(name) for name in value}
        parts = {names[name]: self._part(key, names[name], part) for name, part in value.items()}
        return parts | _warning_texts(value)

    def _part(self, key: str, name: str, value: Any) -> Any:
        path = f"{key}.{name}"
        return self.value(value, path if path in _EVENT_KEYS else name)

    def _key(self, name: str) -> str:
        known = name not in self._expressions and re.fullmatch("[a-z][a-z0-9_]*", name)
        return name if known else self._replaced(name, "column")

    def _text(self, text: str, key: str) -> str:
        if key in _SENTENCES:
            return LEFT_OUT if text else text
        if key in _EVENT_KEYS:
            return text if text in _events() else self._replaced(text, "event")
        if key == "by":
            return text if text in _COLUMNS else self._replaced(text, "column")
        form = _FORM_OF.get(key, key)
        if form == "target" and _CATALOGUE.sub("", text) in _catalogue():
            return text
        if re.fullmatch(_FORMS.get(form, "(?!)"), text) or not text:
            return text
        key = key.removeprefix("about.")
        return self._replaced(text, _PLACEHOLDER_OF.get(key, key))

    def _replaced(self, text: str, kind: str) -> str:
        text = text.strip()
        if text not in self._placeholders:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._placeholders[text] = f"{kind}-{self._counts[kind]}"
        return self._placeholders[text]


def _warning_texts(warning: Mapping[str, Any]) -> dict[str, str]:
    """Title and remedy of a warning by its code; empty for anything else."""
    about = explanations().get(str(warning.get("code")))
    if about is None:
        return {}
    step = warning.get("next_step")
    step = step if step in about.by_engine.values() else about.next_step
    return {"code": warning["code"], "title": about.title, "next_step": step}


@cache
def _events() -> frozenset[str]:
    """Wait events, system calls, terms and states that may be named."""
    text = (files("spillcast.report.html") / "events.txt").read_text(encoding="utf-8")
    return frozenset([*text.splitlines()[2:], *STATES, *TERMS, ON_CPU])


@cache
def _catalogue() -> frozenset[str]:
    return frozenset(f"catalogue:{name}" for name in rows_by_name())
