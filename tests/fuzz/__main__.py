"""The fuzzer: damaged evidence for every reader for some minutes, and counts of the outcomes.

python -m fuzz --minutes 5            # with tests/ on PYTHONPATH, as make fuzz has it
python -m fuzz --known                # complete, cut and missing files, and inputs that broke
python -m fuzz --only 4711 --keep DIR # one input again, and its damaged file
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

from fuzz.corpus import shapes
from fuzz.inputs import Damaged, Known, keep, sentence_of
from fuzz.trial import FINE, warm_up


def main(arguments=None):
    """Runs inputs by their numbers; exits with 1 if one was neither answered nor refused."""
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--count", type=int, help="inputs, in place of minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--shape", default="", help="only shapes whose names begin so")
    parser.add_argument("--known", action="store_true", help="inputs that need no draw")
    parser.add_argument("--only", type=int, nargs="*", help="these inputs alone, with their words")
    parser.add_argument("--keep", type=Path, help="keep the first input of each failure here")
    answer = parser.parse_args(arguments)
    warm_up()
    with tempfile.TemporaryDirectory(prefix="spillcast-fuzz-") as name:
        os.environ |= {"XDG_CACHE_HOME": f"{name}/cache", "XDG_STATE_HOME": f"{name}/state"}
        root = Path(name)
        made = [item for item in shapes(root / "shapes") if item.name.startswith(answer.shape)]
        if answer.known:
            inputs = Known(root / "known", made)
            return _run(inputs, range(len(inputs)), answer, None)
        inputs = Damaged(root / "drawn", made, answer.seed)
        numbers = range(answer.count or 1 << 40) if answer.only is None else answer.only
        ends = None if answer.count or answer.only else time.monotonic() + 60 * answer.minutes
        return _run(inputs, numbers, answer, ends)


def _run(inputs, numbers, answer, ends):
    outcomes, sites = Counter(), {}
    pool = get_context("fork").Pool(answer.processes)
    try:
        for number, outcome in pool.imap_unordered(inputs.attempt, numbers):
            outcomes[outcome.kind] += 1
            if answer.only:
                print(outcome.words)
            if outcome.kind not in FINE:
                first = sites.setdefault((outcome.kind, outcome.site), [0, number])
                first[0] += 1
                if first[0] == 1 and answer.keep:
                    keep(inputs[number], number, answer.keep)
            done = sum(outcomes.values())
            if done % 500 == 0:
                print(f"{done:,}: {_counted(outcomes)}", file=sys.stderr, flush=True)
            if ends is not None and time.monotonic() > ends:
                break
    finally:
        pool.terminate()
    for (subject, site), (times, number) in sorted(sites.items(), key=lambda item: -item[1][0]):
        print(f"{times:5} {subject}: {site} (input {number}: {sentence_of(inputs[number])})")
    print(
        f"{sum(outcomes.values()):,} inputs, seed {answer.seed}: {_counted(outcomes)}", flush=True
    )
    return int(bool(sites))


def _counted(outcomes):
    return ", ".join(f"{count:,} {subject}" for subject, count in outcomes.most_common())


if __name__ == "__main__":
    # Libraries report at exit what they did not free.
    status = main()
    sys.stdout.flush()
    os._exit(status)
