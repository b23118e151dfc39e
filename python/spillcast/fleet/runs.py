"""Recordings and plans, which a forecast needs unchanged: packed into a row, and unpacked."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spillcast.errors import FileTooLarge
from spillcast.evidence.postgres import read_plan
from spillcast.fleet.identity import Identity
from spillcast.gate import damaged, reading
from spillcast.recording import Recording

RECORDING, PLAN = "recording", "plan"
#: Evidence passes through memory whole.
_BYTES_MAX = 64 << 20
#: A fixed time for all files, so that equal recordings pack into equal bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def pack(path: Path, kind: str, source: str, who: Identity) -> dict[str, Any]:
    """A row of RUNS. InputError if it is not evidence, or too large to keep."""
    files = sorted(f for f in path.iterdir() if f.is_file()) if path.is_dir() else [path]
    total = sum(file.stat().st_size for file in files)
    if total > _BYTES_MAX:
        raise FileTooLarge(
            f"{path}: {total >> 20} MiB, and evidence of up to {_BYTES_MAX >> 20} MiB is kept",
            "record with --slices 10, which keeps what a forecast needs",
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name, _NO_TIME), file.read_bytes())
    return {
        "source": source,
        "kind": kind,
        "host": who.host,
        "instance": who.instance,
        "sql_id": _statement(path, kind),
        "name": path.name,
        "evidence": buffer.getvalue(),
    }


def _statement(path: Path, kind: str) -> str:
    """A short name for the query; equal texts have equal names."""
    if kind == RECORDING:
        engine = Recording.open(path).meta.engine
        text = engine.query or engine.command or path.name
    else:
        document = read_plan(path, timed=False).meta.engine.document or {}
        if identifier := document.get("Query Identifier"):
            return str(identifier)
        text = document.get("Query Text") or path.name
    if not isinstance(text, str):
        text = json.dumps(text)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


@contextmanager
def unpacked(row: dict[str, Any]) -> Iterator[Recording]:
    """The recording of a row, while the context lasts. Refusal as in ``read_plan``."""
    name = row["name"]
    with TemporaryDirectory(prefix="spillcast-") as folder:
        path = Path(folder) / name
        target = path if row["kind"] == RECORDING else Path(folder)
        with reading(name), zipfile.ZipFile(io.BytesIO(row["evidence"])) as archive:
            if Path(name).name != name or row["kind"] not in (RECORDING, PLAN):
                raise damaged(name, f"neither a {RECORDING} nor a {PLAN} of that name")
            if sum(file.file_size for file in archive.infolist()) > _BYTES_MAX:
                raise damaged(name, f"more than {_BYTES_MAX >> 20} MiB of evidence")
            archive.extractall(target)
        yield Recording.open(path) if row["kind"] == RECORDING else read_plan(path)
