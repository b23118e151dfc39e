"""The plan in a file: what psql, pgAdmin or a server's log put around it is taken off."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spillcast.errors import InputError
from spillcast.evidence.postgres.shape import check_shape
from spillcast.evidence.postgres.text import begins_plan, document_of_text
from spillcast.evidence.text import text_of
from spillcast.evidence.unwrap import unwrapped
from spillcast.gate import json_of, reading

HOW = (
    "make it with: "
    "EXPLAIN (ANALYZE, BUFFERS, VERBOSE, SETTINGS, TIMING OFF, FORMAT JSON) SELECT ..."
)
#: auto_explain writes this line, then the plan with a tab before each line.
_LOGGED = re.compile(r"duration: ([\d.]+) ms\s+plan:\s*$")
_TEXT = "Query Text:"
#: What bound parameters were, from version 16 on.
_PARAMETERS = "Query Parameters:"


def read_documents(path: Path) -> list[dict[str, Any]]:
    """All plans in a file, each as FORMAT JSON gives it. InputError where there is none."""
    lines = unwrapped(text_of(path)).splitlines()
    with reading(path, HOW):
        if logged := list(logged_plans(path, lines)):
            return logged
        document = _document(path, _bare(lines))
    if document is None:
        raise InputError(f"{path}: holds no plan of EXPLAIN", HOW)
    return [document]


def logged_plans(path: Path, lines: list[str]) -> Iterator[dict[str, Any]]:
    """The plans that auto_explain put into a log, with the time it gives for ``Execution Time``."""
    for at, line in enumerate(lines):
        if (match := _LOGGED.search(line)) is None:
            continue
        body: list[str] = []
        for below in lines[at + 1 :]:
            if not below.startswith(("\t", " ", "{", "}")):
                break
            body.append(below.removeprefix("\t"))
        text, body = _after_the_query(body)
        document = _document(path, body, logged=True)
        if document is not None:
            named = {"Query Text": text} if text else {}
            yield {"Execution Time": float(match[1]), **named, **document}


def _after_the_query(body: list[str]) -> tuple[str, list[str]]:
    """The statement above a text plan, of as many lines as it had, and the lines of the plan."""
    if not body or not body[0].startswith(_TEXT):
        return "", body
    ends = (
        at
        for at, line in enumerate(body)
        if at and (line.startswith(_PARAMETERS) or begins_plan(line))
    )
    end = next(ends, 1)
    return "\n".join(body[:end]).removeprefix(_TEXT).strip(), body[end:]


def _bare(lines: list[str]) -> list[str]:
    """Lines without psql's heading, rule, ``+`` at line ends and count, and without quotes."""
    lines = [re.sub(r"(?<!\s)\s*\+$", "", line) for line in lines]
    frame = re.compile(r'\s*"?QUERY PLAN"?\s*|-{3,}|\s*\(\d+ rows?\)|\s*')
    lines = [line for line in lines if not frame.fullmatch(line)]
    if lines and lines[0].startswith('"'):
        lines = [line for row in csv.reader("\n".join(lines).splitlines(True)) for line in row]
        lines = [part for line in lines for part in line.splitlines()]
    return lines


def _document(path: Path, lines: list[str], *, logged: bool = False) -> dict[str, Any] | None:
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith(("[", "{")):
        return _of_json(path, "\n".join(lines))
    if first.startswith(("<explain", "- Plan:", "Plan:")):
        raise InputError(f"{path}: a plan in XML or YAML, which spillcast does not read", HOW)
    document = document_of_text(lines)
    whole = logged or document is None or "Execution Time" in document
    if not whole and document is not None and "Actual Loops" in document["Plan"]:
        raise InputError(f"{path}: no Execution Time: cut, or made with SUMMARY OFF", HOW)
    return document


def _of_json(path: Path, text: str) -> dict[str, Any] | None:
    document = json_of(text, path, HOW, rest=True)
    if isinstance(document, list):
        document = next(iter(document), None)
    if not isinstance(document, dict) or not isinstance(document.get("Plan"), dict):
        return None
    check_shape(document)
    return document
