"""Composes the sections of a page from its inputs, renders it and writes the file."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import markupsafe

from spillcast._core import __version__
from spillcast.cache.simulation import CacheResult
from spillcast.document import written
from spillcast.engines.ranking import ServerRanking
from spillcast.errors import WriteFailed
from spillcast.fleet import Fleet
from spillcast.forecast import Forecast
from spillcast.forecast.sizing.products import Sizing
from spillcast.forecast.verdict import ranked
from spillcast.gate import reading
from spillcast.lab.case import Verification
from spillcast.lab.io_size import IoSizeSweep
from spillcast.lab.memory_result import MemorySweep
from spillcast.profile import Profile
from spillcast.report.html import (
    HtmlPage,
    Section,
    TableCells,
    Weakness,
    documents,
    forecasts,
    runs,
)
from spillcast.report.html.charts import unbroken
from spillcast.report.html.evidence import target_latencies
from spillcast.report.html.inputs import AGAIN, KINDS, Inputs, StorageLatencies
from spillcast.report.html.redact import redacted
from spillcast.storage import Storage
from spillcast.text import sentence
from spillcast.workspace import whole_file

REPORT_SCHEMA = "spillcast.report/1"
#: The size of a page that mail gateways accept and phones open without delay.
BYTES_MAX = 3_000_000
#: Larger documents are not included as raw figures.
RAW_BYTES_MAX = 300_000


def write_report(inputs: Inputs, path: Path, *, redact: bool = False) -> dict[str, Any]:
    """Write the page; return the document of docs/schema.md about its contents.

    A page above BYTES_MAX shows fewer queries, runs and documents, with a notice. WriteFailed if
    the file cannot be written, or if a page with one input of each kind is too large.
    """
    upper = len(inputs.documents) + len(inputs.runs)
    while True:
        shown, left_out = inputs.first(upper)
        with reading("an input of the report", AGAIN):
            page = compose(redacted(shown) if redact else shown, left_out)
        content = _rendered(page, redact=redact).encode("utf-8", errors="replace")
        if len(content) <= BYTES_MAX:
            break
        if upper <= 1:
            problem = f"the page would have {len(content):,} bytes, more than {BYTES_MAX:,}"
            raise WriteFailed(problem, "give fewer inputs or targets", path)
        upper //= 2
    with whole_file(path) as partial:
        partial.write_bytes(content)
    return {
        "schema": REPORT_SCHEMA,
        "path": str(path),
        "bytes": len(content),
        "redacted": redact,
        "answer": list(page.answer),
        "sections": [section.title for section in page.sections],
        "charts": [figure.title for section in page.sections for figure in section.figures],
    }


def _rendered(page: HtmlPage, *, redact: bool) -> str:
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("spillcast.report.html", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"without_breaks": _without_breaks, "cells": TableCells.of}
    script = templates.get_template("copy.js").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return templates.get_template("page.html.j2").render(
        page=page,
        redacted=redact,
        script=script,
        script_hash=f"sha256-{digest}",
        version=__version__,
        when=f"on {datetime.now(UTC):%Y-%m-%d}",
    )


def _without_breaks(text: str, intervals: bool = True) -> markupsafe.Markup:
    """A text that is not wrapped within options, nor where ``unbroken`` forbids it."""
    option = r'<span class="option">\g<0></span>'
    return markupsafe.Markup(re.sub(r"\B--[\w-]+", option, unbroken(text, intervals)))


def compose(inputs: Inputs, left_out: Sequence[str] = ()) -> HtmlPage:
    """The page: its answer, a section for each subject, warnings, and how it was measured.

    The answer is for the first kind of input. ``left_out`` are sentences about omitted inputs.
    """
    answered, rankings = inputs.of_type(Forecast), inputs.of_type(ServerRanking)
    sizings, verifications = inputs.of_type(Sizing), inputs.of_type(Verification)
    storages = inputs.of_type(Storage)
    latencies = [*map(target_latencies, storages), *inputs.latencies]
    target = _target(inputs, answered, latencies)
    kinds: list[list[Section]] = [
        forecasts.sections(answered),
        list(map(documents.purchase, sizings)),
        [section for ranking in rankings for section in documents.server(ranking)],
        documents.fleet_sections(inputs.of_type(Fleet)),
        list(map(documents.io_sizes, inputs.of_type(IoSizeSweep))),
        list(map(documents.memory, inputs.of_type(MemorySweep))),
        list(map(documents.cache, inputs.of_type(CacheResult))),
        [documents.verification(verifications)] if verifications else [],
        runs.sections(inputs.runs, target),
        [
            documents.profile(name, document)
            for name, document in inputs.documents
            if isinstance(document, Profile)
        ],
        list(map(documents.storage, storages, latencies)) if target is None else [],
    ]
    answers = ([text for section in kind for text in section.answer] for kind in kinds)
    sections = [Section("Left out of this page", left_out)] if left_out else []
    sections += [section for kind in kinds for section in kind]
    if weaknesses := _weaknesses(inputs, answered):
        sections.append(Section("Warnings", weaknesses=weaknesses))
    return HtmlPage(
        _title(inputs),
        next(filter(None, answers), ["There is nothing to show."]),
        [*sections, *runs.measured(inputs.runs)],
        _raw(inputs),
        runs.subjects(inputs.runs),
    )


def _ordered(inputs: Inputs) -> list[tuple[str, str, Any]]:
    """The title, the name and the value of each document, by kind in the order of a page."""
    return [
        (title, name, value)
        for title, kind in KINDS.values()
        for name, value in inputs.documents
        if isinstance(value, kind)
    ]


def _title(inputs: Inputs) -> str:
    names = [run.name for run in inputs.runs] or [name for _, name, _ in _ordered(inputs)]
    names = ["standard input" if name == "-" else name for name in dict.fromkeys(names)]
    return f"spillcast: {', '.join(names[:3])}{'...' * (len(names) > 3)}"


def _target(
    inputs: Inputs, answered: list[Forecast], latencies: Sequence[StorageLatencies]
) -> StorageLatencies | None:
    """The latencies that runs are compared with: of the fastest target with latencies."""
    if not inputs.runs:
        return None
    by_name = {storage.name: storage for storage in latencies if storage.groups}
    names = [forecast.target for forecast in ranked(answered) if forecast.target in by_name]
    return by_name[names[0]] if names else next(iter(by_name.values()), None)


def _weaknesses(inputs: Inputs, answered: list[Forecast]) -> list[Weakness]:
    """The warnings of all inputs, each once."""
    weaknesses = [Weakness(sentence(text)) for run in inputs.runs for text in run.warnings]
    weaknesses += forecasts.weaknesses(answered)
    for _, _, value in _ordered(inputs):
        for warning in () if isinstance(value, Forecast) else getattr(value, "warnings", ()):
            text = warning["message"] if isinstance(warning, Mapping) else str(warning)
            weaknesses.append(Weakness(sentence(text)))
    return list(dict.fromkeys(weaknesses))


def _raw(inputs: Inputs) -> list[tuple[str, str]]:
    """The title and the JSON of each run and document; indented unless that is too large."""
    documents = [(f"Run: {run.name}", written(run)) for run in inputs.runs]
    documents += [
        (f"{title}: {getattr(value, 'target', None) or name}", value.to_json())
        for title, name, value in _ordered(inputs)
    ]
    raw = []
    for title, document in documents:
        text = _json(document, indent=1)
        if len(text.encode()) > RAW_BYTES_MAX:
            text = _json(document, separators=(",", ":"))
        if len(text.encode()) > RAW_BYTES_MAX:
            text = "Too large for this page: see the input."
        raw.append((title, text))
    return raw


def _json(document: Mapping[str, Any], **layout: Any) -> str:
    """Readable JSON; bytes of file names that are not UTF-8 are written as escapes."""
    text = json.dumps(document, default=str, ensure_ascii=False, **layout)
    return text.encode(errors="backslashreplace").decode()
