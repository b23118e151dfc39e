"""The page as a file: rendered by its template, checked for its size, written whole or not."""

import base64
import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path

import jinja2
from markupsafe import Markup

from spillcast._core import __version__
from spillcast.errors import InputError, SpillcastError
from spillcast.gate import reading
from spillcast.report.draw import PALETTE
from spillcast.report.html.compose import compose
from spillcast.report.html.material import AGAIN, Document, Material
from spillcast.report.html.redact import redacted
from spillcast.report.table import glued
from spillcast.workspace import whole_file

REPORT_SCHEMA = "spillcast.report/1"
#: What a mail gateway lets through, and a phone opens at once.
BYTES_MAX = 3_000_000


def write_report(material: Material, path: Path, *, redact: bool = False) -> Document:
    """Write the page; the document of docs/schema.md says what it holds.

    InputError where it cannot be written, SpillcastError where it would be larger than BYTES_MAX.
    """
    with reading("an input of the report", AGAIN):
        page = compose(redacted(material) if redact else material)
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("spillcast.report.html", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["glued"] = _glued
    style = templates.get_template("style.css").render(palette=PALETTE.items())
    script = templates.get_template("copy.js").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = templates.get_template("page.html.j2").render(
        page=page,
        redacted=redact,
        style=Markup(style),
        script=script,
        script_hash=f"sha256-{digest}",
        version=__version__,
        when=f"on {datetime.now(UTC):%Y-%m-%d}",
    )
    content = text.encode("utf-8", errors="replace")
    if len(content) > BYTES_MAX:
        raise SpillcastError(
            f"{path}: the page would have {len(content):,} bytes, more than {BYTES_MAX:,}",
            "give fewer inputs or targets",
        )
    _write(path, content)
    return {
        "schema": REPORT_SCHEMA,
        "path": str(path),
        "bytes": len(content),
        "redacted": redact,
        "answer": list(page.answer),
        "sections": [section.title for section in page.sections],
        "charts": [figure.title for section in page.sections for figure in section.figures],
    }


def _glued(text: str) -> str:
    """A text that is not broken between a number and its unit."""
    return re.sub(
        r"(?<=\d\u00a0(?:min)) (?=\d)|(?<=\d\u00a0h) (?=\d)", "\u00a0", glued(text, "\u00a0")
    )


def _write(path: Path, content: bytes) -> None:
    try:
        with whole_file(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        hint = "name another with -o"
        raise InputError(f"{path}: {error.strerror or error}", hint) from error
