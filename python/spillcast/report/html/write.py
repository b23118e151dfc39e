"""Inputs -> the page as a file: which sections there are, rendered, written whole or not."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2

from spillcast._core import __version__
from spillcast.cache.simulation import CacheResult
from spillcast.document import written
from spillcast.engines.ranking import ServerRanking
from spillcast.errors import WriteFailed
from spillcast.fleet.result import Fleet
from spillcast.forecast import Forecast
from spillcast.forecast.sizing.products import Sizing
from spillcast.forecast.verdict import ranked
from spillcast.gate import reading
from spillcast.lab.case import Verification
from spillcast.lab.io_size.sweep import Sweep as IoSizeSweep
from spillcast.lab.memory_result import Sweep as MemorySweep
from spillcast.profile import Profile
from spillcast.report.html import documents, forecasts, runs
from spillcast.report.html.evidence import target_latencies
from spillcast.report.html.inputs import AGAIN, KINDS, Inputs, Latencies
from spillcast.report.html.page import Cells, Page, Section, Weakness
from spillcast.report.html.redact import redacted
from spillcast.report.size import answer_text
from spillcast.storage import Storage
from spillcast.tabular import glued
from spillcast.text import sentence
from spillcast.workspace import whole_file

REPORT_SCHEMA = "spillcast.report/1"
#: What a mail gateway lets through, and a phone opens at once.
BYTES_MAX = 3_000_000
#: Raw figures of more bytes are not repeated in the page.
RAW_BYTES_MAX = 300_000


def write_report(inputs: Inputs, path: Path, *, redact: bool = False) -> dict[str, Any]:
    """Write the page; the document of docs/schema.md says what it holds.

    A page of more than BYTES_MAX shows fewer queries, runs and documents, and says so. InputError
    where it cannot be written, SpillcastError where one of each kind is too large.
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
            problem = f"{path}: the page would have {len(content):,} bytes, more than {BYTES_MAX:,}"
            raise WriteFailed(problem, "give fewer inputs or targets")
        upper //= 2
    try:
        with whole_file(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        hint = "name another with -o"
        raise WriteFailed(f"{path}: {error.strerror or error}", hint) from error
    return {
        "schema": REPORT_SCHEMA,
        "path": str(path),
        "bytes": len(content),
        "redacted": redact,
        "answer": list(page.answer),
        "sections": [section.title for section in page.sections],
        "charts": [figure.title for section in page.sections for figure in section.figures],
    }


def _rendered(page: Page, *, redact: bool) -> str:
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("spillcast.report.html", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"glued": _glued, "cells": Cells.of}
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


def _glued(text: str) -> str:
    return re.sub(
        r"(?<=\d\u00a0(?:min)) (?=\d)|(?<=\d\u00a0h) (?=\d)", "\u00a0", glued(text, "\u00a0")
    )


def compose(inputs: Inputs, left_out: Sequence[str] = ()) -> Page:
    """The answer first, then what it rests on, what to do, how sure it is, and how it was measured.

    The answer is that of the first kind of input that the page has. ``left_out`` are sentences
    about inputs that it has no room for.
    """
    known, rankings = inputs.known(Forecast), inputs.known(ServerRanking)
    sizings, verifications = inputs.known(Sizing), inputs.known(Verification)
    storages = inputs.known(Storage)
    latencies = [*map(target_latencies, storages), *inputs.latencies]
    target = _target(inputs, known, latencies)
    kinds: list[list[Section]] = [
        forecasts.sections(known, [answer_text(sizing) for sizing in sizings if sizing.chosen]),
        list(map(documents.purchase, sizings)),
        [section for ranking in rankings for section in documents.server(ranking)],
        list(map(documents.fleet, inputs.known(Fleet))),
        list(map(documents.io_sizes, inputs.known(IoSizeSweep))),
        list(map(documents.memory, inputs.known(MemorySweep))),
        list(map(documents.cache, inputs.known(CacheResult))),
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
    if weak := _weaknesses(inputs, known):
        sections.append(Section("Warnings", weaknesses=weak))
    return Page(
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
    names = list(dict.fromkeys(names))
    return f"spillcast: {', '.join(names[:3])}{'...' * (len(names) > 3)}"


def _target(
    inputs: Inputs, known: list[Forecast], latencies: Sequence[Latencies]
) -> Latencies | None:
    """Latencies of the target that the page is about: the fastest of which any are known."""
    if not inputs.runs:
        return None
    by_name = {storage.name: storage for storage in latencies if storage.groups}
    names = [forecast.target for forecast in ranked(known) if forecast.target in by_name]
    return by_name[names[0]] if names else next(iter(by_name.values()), None)


def _weaknesses(inputs: Inputs, known: list[Forecast]) -> list[Weakness]:
    """What weakens the numbers, of all inputs, each once."""
    weak = [Weakness(sentence(text)) for run in inputs.runs for text in run.warnings]
    weak += forecasts.weaknesses(known)
    for _, _, value in _ordered(inputs):
        for warning in () if isinstance(value, Forecast) else getattr(value, "warnings", ()):
            text = warning["message"] if isinstance(warning, Mapping) else str(warning)
            weak.append(Weakness(sentence(text)))
    return list(dict.fromkeys(weak))


def _raw(inputs: Inputs) -> list[tuple[str, str]]:
    documents = [(f"Run: {run.name}", written(run)) for run in inputs.runs]
    documents += [
        (f"{title}: {getattr(value, 'target', None) or name}", value.to_json())
        for title, name, value in _ordered(inputs)
    ]
    raw = []
    for title, document in documents:
        forms = (_json(document, **form) for form in ({"indent": 1}, {"separators": (",", ":")}))
        short = (text for text in forms if len(text.encode()) <= RAW_BYTES_MAX)
        raw.append((title, next(short, "Too large for this page: the input holds it.")))
    return raw


def _json(document: Mapping[str, Any], **form: Any) -> str:
    """JSON as people read it; bytes of a file's name that are not UTF-8 are escapes of JSON."""
    text = json.dumps(document, default=str, ensure_ascii=False, **form)
    return text.encode(errors="backslashreplace").decode()
