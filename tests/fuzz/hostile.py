"""Files that never end, never begin or unpack to enormous sizes, given to every verb.

python -m fuzz.hostile    # with tests/ on PYTHONPATH; status 1 where one was not refused
"""

import gzip
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from fuzz.mutate import zstd
from fuzz.trial import FINE, attempt, warm_up

#: A packed file contains 64 of these: 2 GiB of zeros.
PART = bytes(1 << 25)
LINE = 100_000_000
#: Entities that expand to 10^9 letters.
ENTITIES = (
    '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">'
    + "".join(
        f'<!ENTITY {name} "{f"&{before};" * 10}">'
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]><report>&i;</report>"
)
VERBS = (
    "profile {} --json",
    "forecast {} --to latency:150us --json",
    "forecast {} --to latency:150us --from latency:2ms --elapsed 20s",
    "report {} --to latency:1ms -o page.html",
    "cache {} --size 1M --json",
    "ingest {} --database erp -o out --json",
    "storage show {} --json",
    "export {} --format openmetrics",
    "check {} --measured 20s --to latency:1ms",
)
SQL = ("from waits limit 1", "from samples limit 1")


def make(folder):
    """Makes the files; returns their names."""
    ash = "SAMPLE_TIME,SESSION_ID,SESSION_STATE,EVENT\n"
    texts = {
        "entities.xml": ENTITIES,
        "external.xml": '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
        "<report>&a;</report>",
        "commas.csv": "," * LINE,
        "letters.trc": "x" * LINE,
        "row.csv": ash + "2026-11-01 10:00:00," + "7" * LINE,
        "number.json": '[{"Plan": {"Node Type": "Sort", "Actual Rows": ' + "9" * LINE + "}}]",
        "blanks.txt": "TKPROF: Release 19\n" + " " * LINE,
        "log.log": "LOG:  duration: 2501.000 ms  plan:\n\t" + "x" * LINE,
        "table.html": "<html><td>WORKLOAD REPOSITORY report for</td>" + "<td>" * (LINE // 4),
        "quotes.csv": ash + '"' * LINE,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "bomb.trc.gz").write_bytes(gzip.compress(PART) * 64)
    (folder / "bomb.csv.zst").write_bytes(zstd(PART) * 64)
    (folder / "bomb.json.gz").write_bytes(gzip.compress(b"[" * len(PART)) * 64)
    os.mkfifo(folder / "pipe.trc")
    os.mkfifo(folder / "pipe.json")
    (folder / "zero.trc").symlink_to("/dev/zero")
    (folder / "zero.csv").symlink_to("/dev/zero")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "many").mkdir()
    (folder / "many" / "again").symlink_to("..")
    return sorted(path.name for path in folder.iterdir())


def main():
    """Runs each verb on each file."""
    warm_up()
    outcomes, words = Counter(), []
    with tempfile.TemporaryDirectory(prefix="spillcast-fuzz-") as name:
        os.environ |= {"XDG_CACHE_HOME": f"{name}/cache", "XDG_STATE_HOME": f"{name}/state"}
        files, place = Path(name, "files"), Path(name, "place")
        files.mkdir()
        place.mkdir()
        for file in make(files):
            path = f"{files}/{file}"
            lines = [verb.format(path).split() for verb in VERBS]
            lines += [["profile", path, "--sql", query] for query in SQL]
            for line in lines:
                result = attempt(line, place)
                outcomes[result.kind] += 1
                if result.kind not in FINE:
                    words.append(f"{result.kind}: {file}, {line[0]}: {result.words.strip()[-300:]}")
                print(file, line[0], result.kind, file=sys.stderr, flush=True)
    print("\n".join(words))
    print(", ".join(f"{count} {subject}" for subject, count in outcomes.most_common()), flush=True)
    return int(bool(words))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
