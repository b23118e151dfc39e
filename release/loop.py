"""Record, probe, forecast and report with an installed wheel: as root, as a user, without perf."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from release.installed import Installed
from release.tree import ROOT

TARGETS = ROOT / "tests" / "targets"
BASE_BYTES = 51_712


def ways(installed: Installed) -> Iterator[tuple[str, list[str], set[str]]]:
    """How it is run: a name, the command prefix, and the allowed capture methods."""
    python = str(installed.bin / "python")
    refuse = [python, str(TARGETS / "refuse.py")]
    refused = [*refuse, "bpf", *refuse, "perf_event_open"]
    yield "as root", [], {"bpf", "perf"}
    ordinary = [python, str(TARGETS / "ordinary_user.py")]
    yield "as an ordinary user", ordinary, {"perf", "preload"}
    yield "with perf events refused", refused, {"preload"}


def run(installed: Installed, under: Sequence[str], captures: set[str], *, charts: bool) -> str:
    """Runs the whole loop; returns the capture method. AssertionError says what failed."""
    work = installed.home / "loop"
    for folder in (work, work / "temp", work / "there"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    base = installed.home.parent / "base"
    base.write_bytes(bytes(BASE_BYTES))
    run, storage, page = work / "run.spill", work / "there.json", work / "report.html"

    def spillcast(*words: object, refusable: bool = False) -> str:
        done = installed.run("spillcast", *words, under=under)
        fine = (0, 3) if refusable else (0,)
        assert done.returncode in fine, f"spillcast {words[0]}: {done.returncode} {done.stderr}"
        return done.stdout

    program = [
        "python",
        TARGETS / "spill.py",
        "--file",
        work / "temp" / "f",
        "--base",
        base,
    ]
    result = spillcast("record", "-o", run, "--", *program, "--threads", "2", "--sequential")
    operations = json.loads(result.splitlines()[0])["account"]
    meta = json.loads((run / "meta.json").read_text())
    temp = [item for item in operations if item[5] != str(base)]
    seen = meta["temp"]["reads"] + meta["temp"]["writes"]
    assert seen == len(temp), f"{seen} operations were recorded of {len(temp)}"
    assert meta["capture"]["method"] in captures, meta["capture"]["method"]
    spillcast("probe", work / "there", "--like", run, "-o", storage, "--budget", "5s")
    # Such a short run may be refused for its interval while the machine is building.
    result = spillcast("forecast", run, "--to", storage, "--json", refusable=True)
    forecast = json.loads(result)
    assert forecast["refused"] or forecast["forecast_s"] > 0
    if charts:
        spillcast("report", run, "--to", storage, "-o", page, refusable=True)
        assert page.stat().st_size > 10_000
    else:
        _lacks_charts(installed, run, page)
    remove(work)
    return str(meta["capture"]["method"])


def _lacks_charts(installed: Installed, run: Path, page: Path) -> None:
    """Without the extra, a report names it in one line."""
    done = installed.run("spillcast", "report", run, "-o", page)
    assert done.returncode == 2, done.stderr
    assert "pip install 'spillcast[report]'" in done.stderr, done.stderr


def remove(folder: Path) -> None:
    """Removes everything that a run left."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
