"""Material -> the page: which sections there are, and in which order."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spillcast.report.html.answer import answer, ranked
from spillcast.report.html.material import Document, Material
from spillcast.report.html.page import Page, Raw, Section, Warned
from spillcast.report.html.sections import (
    fleets,
    forecasts,
    others,
    runs,
    servers,
    side_by_side,
    to_come,
    verifications,
)
from spillcast.report.html.words import sentence

#: Raw figures of more bytes are not repeated in the page.
RAW_BYTES_MAX = 300_000


def compose(material: Material) -> Page:
    """The answer first, then the choices, where the time goes, what they rest on, and how sure."""
    there = _there(material)
    found: list[Section] = forecasts.choices(material.forecasts)
    found += to_come.sections(material.forecasts)
    found += side_by_side.sections(material.runs)
    found += runs.sections(material.runs, there)
    found += others.profiles(material.profiles)
    found += forecasts.terms(material.forecasts)
    found += servers.sections(material.servers)
    found += fleets.fleets(material.fleets)
    found += others.sweeps(material.sweeps)
    found += others.caches(material.caches)
    found += verifications.sections(material.verifications) if material.verifications else []
    if not there:
        by_name = {one["name"]: one for one in material.latencies}
        known = [one for one in material.storages if one["name"] in by_name]
        found += others.storages(known, [by_name[one["name"]] for one in known])
    said = _warnings(material)
    found += [Section("Warnings", warnings=said)] if said else []
    found += runs.measured(material.runs)
    numbers = forecasts.numbers(material.forecasts) if material.forecasts else []
    measured = runs.subjects(material.runs)
    return Page(_title(material), answer(material), found, numbers, _raw(material), measured)


def _title(material: Material) -> str:
    named = [run["name"] for run in material.runs] or [
        one["name"]
        for room in (
            material.forecasts, material.fleets, material.sweeps, material.caches,
            material.verifications, material.servers, material.profiles, material.storages,
        )
        for one in room
    ]  # fmt: skip
    names = list(dict.fromkeys(map(str, named)))
    return "spillcast: " + ", ".join(names[:3]) + ("..." if len(names) > 3 else "")


def _there(material: Material) -> Document | None:
    """Latencies of the target that the page is about: the fastest of which any are known."""
    if not material.runs:
        return None
    known = {one["name"]: one for one in material.latencies if one["groups"]}
    for forecast in ranked(material.forecasts):
        if forecast["target"] in known:
            return known[forecast["target"]]
    return next(iter(known.values()), None)


def _warnings(material: Material) -> list[Warned]:
    said = [Warned(sentence(text)) for run in material.runs for text in run["warnings"]]
    said += forecasts.warnings(material.forecasts)
    for document in (*material.profiles, *material.fleets, *material.sweeps, *material.caches):
        for warning in document.get("warnings", ()):
            text = warning["message"] if isinstance(warning, Mapping) else str(warning)
            said.append(Warned(sentence(text)))
    return list(dict.fromkeys(said))


def _raw(material: Material) -> list[Raw]:
    rooms: Sequence[tuple[str, Sequence[Mapping[str, Any]]]] = (
        ("Run", material.runs),
        ("Forecast", material.forecasts),
        ("Profile", material.profiles),
        ("Storage", material.storages),
        ("Sweep", material.sweeps),
        ("Cache", material.caches),
        ("Fleet", material.fleets),
        ("Verification", material.verifications),
        ("Server", material.servers),
    )
    found = []
    for title, documents in rooms:
        for document in documents:
            text = _json(document, indent=1)
            if len(text.encode()) > RAW_BYTES_MAX:
                text = _json(document, separators=(",", ":"))
            name = f"{title}: {document.get('target') or document['name']}"
            if (size := len(text.encode())) > RAW_BYTES_MAX:
                text = f"{size:,} bytes, too many for this page: the input holds them."
            found.append(Raw(name, text))
    return found


def _json(document: Mapping[str, Any], **form: Any) -> str:
    """JSON as people read it; a byte of a file's name that is no UTF-8 is an escape of JSON."""
    text = json.dumps(document, default=str, ensure_ascii=False, **form)
    return text.encode(errors="backslashreplace").decode()
