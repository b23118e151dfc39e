"""Existing processes with children and many threads: all are seen, or the rest is reported."""

import json
import os
import re
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cases import nightly
from harness import (
    available,
    completed,
    only_line,
    ordinary_user,
    refuse_bpf,
    spill_in,
    spillcast,
    started,
    succeeded,
    target,
    until,
    until_attached,
)
from spillcast.report.recording import PROPOSAL

BLOCKS = 50
#: After this many polls the recorder has read everything that was there before them.
LOOKS = 3
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def limited(descriptors):
    """A command that runs others with this limit of descriptors."""
    return ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"]


def links_of(pid):
    """The links of a process's descriptors; a descriptor may be closed during the listing."""
    links = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            links.append(os.readlink(link))
    return links


def looks(pid):
    """How often the recorder's thread that reads events has waited for more; 0 before it starts."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text() == "spillcast-read\n":
            status = (task / "status").read_text()
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1])
    return 0


class Crowd:
    """The program of tests/targets/crowd.py, and its recorder."""

    def __init__(self, places, *options, under=()):
        self.file, self.output = places.temp / "spill", places.root / "run.spill"
        command = [*under, *target("crowd", *options, self.file)]
        self.program = subprocess.Popen(command, text=True, env=places.env, **PIPES)
        self.pids = [int(pid) for pid in self.program.stdout.readline().split()]
        self.env = places.env | {"HOME": str(places.root)}

    def tell(self):
        self.program.stdin.write("go\n")
        self.program.stdin.flush()

    @contextmanager
    def recorded(self, under=(), requested=()):
        """Attaches a recorder; waits for its end on exit."""
        requested = ("record", "--force", "--pid", self.pids[0], *requested, "-o", self.output)
        recorder = started(*requested, under=under, text=True, env=self.env, **PIPES)
        until_attached(self.output, recorder)
        try:
            yield recorder
            until(lambda: all(self.written(pid) for pid in self.pids), "the spill")
            # After the end of the program its descriptors can no longer be looked up.
            enough = looks(recorder.pid) + LOOKS
            until(lambda: looks(recorder.pid) >= enough, "the looks")
            self.program.stdin.close()
            _, self.stderr = succeeded(recorder)
        finally:
            recorder.kill()
            recorder.communicate()
            # Its children end with it.
            with self.program:
                self.program.kill()

    def written(self, pid):
        file = Path(f"{self.file}.{pid}")
        return file.exists() and file.stat().st_size == 8192 * BLOCKS

    def writes(self):
        """Blocks written, by process."""
        rows = pq.read_table(self.output / "waits.parquet", columns=["file", "op"]).to_pylist()
        files = [row["file"] for row in rows if row["op"] == "write"]
        return {pid: files.count(f"{self.file}.{pid}") for pid in self.pids}

    def capture(self):
        return json.loads((self.output / "meta.json").read_text())["capture"]


@pytest.mark.parametrize("as_user", [False, True])
def test_existing_children_are_observed(open_places, as_user):
    under = ordinary_user() if as_user else ()
    open_places.root.chmod(0o777)
    crowd = Crowd(open_places, "--children", 3, under=under)
    with crowd.recorded(under=under):
        crowd.tell()
    assert crowd.writes() == dict.fromkeys(crowd.pids, BLOCKS)
    assert crowd.capture()["lost"] == 0
    assert crowd.capture()["threads_sampled"] is None


@pytest.mark.skipif(not ordinary_user(), reason="only root observes the whole machine")
@pytest.mark.parametrize(
    ("capture", "kind", "most"),
    [("bpf", "bpf", 40), *nightly(("perf", "perf_event", 80 * os.cpu_count()))],
)
def test_descriptors_do_not_grow_with_threads(places, capture, kind, most):
    """It opens and closes a few all the time, for example for names of threads."""

    def descriptors(threads, settled):
        """The number of its descriptors once all threads have spilled and it is ``settled``."""
        crowd, counts = Crowd(places, "--threads", threads, "--children", 1), []
        with crowd.recorded(requested=("--capture", capture)) as recorder:
            crowd.tell()
            until(lambda: all(crowd.written(pid) for pid in crowd.pids), "the spill")

            def settles():
                counts.append(sum(kind in link for link in links_of(recorder.pid)))
                return settled(counts[-1])

            until(settles, "its descriptors")
        assert crowd.writes() == dict.fromkeys(crowd.pids, BLOCKS)
        return counts[-1]

    few = descriptors(1, lambda count: 0 < count <= most)
    descriptors(600, lambda count: abs(count - few) < 60)


@pytest.mark.skipif(not ordinary_user(), reason="only root filters by name")
@pytest.mark.parametrize("name", ["another name", 'a"quoted" one'])
def test_a_renamed_thread_is_still_observed(places, name):
    crowd = Crowd(places, "--name", name)
    with crowd.recorded(requested=("--capture", "perf")):
        crowd.tell()
        task = Path(f"/proc/{crowd.pids[0]}/task")
        until(lambda: name + "\n" in {(item / "comm").read_text() for item in task.iterdir()}, name)
        # Longer than it takes to open the events that admit the new name.
        subprocess.run(["sleep", "1"], check=True)
        crowd.tell()
    assert crowd.writes() == {crowd.pids[0]: BLOCKS}


def test_few_descriptors_lead_to_a_sample_of_threads_and_a_refusal(open_places):
    open_places.root.chmod(0o777)
    under = ordinary_user()
    crowd = Crowd(open_places, "--threads", 40, "--children", 2, under=under)
    with crowd.recorded(under=[*limited(2500), *under]):
        crowd.tell()
    seen, of = crowd.capture()["threads_sampled"]
    assert of == 3 * 40 + 1
    assert 2 < seen < of
    [line] = [line for line in crowd.stderr.splitlines() if "threads" in line]
    answer = rf"spillcast: {seen} of {of} threads observed: .*ulimit -n 2,500.*root"
    assert re.fullmatch(answer, line)
    assert set(crowd.writes().values()) <= {0, BLOCKS}
    answer = spillcast("forecast", crowd.output, "--to", "latency:1ms", "--json")
    assert answer.returncode == 3
    assert "threads" in json.loads(answer.stdout)["refused"]


def test_too_few_descriptors_for_any_thread_are_refused(places):
    few = limited(64)
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            requested = ("record", "--pid", process.pid, "-o", places.root / "x.spill")
            refused = [
                spillcast(*requested, under=[*few, *refuse_bpf()]),
                spillcast(*requested, "--capture", "perf", under=few),
            ]
        finally:
            process.kill()
    for result in refused:
        assert "raise ulimit -n, which is 64" in only_line(result, 2)


def test_auto_tries_the_next_source_if_the_first_fails_to_start(places):
    available("bpf")
    output, few = places.root / "run.spill", [*limited(64), *refuse_bpf()]
    command = spill_in(places)
    requested = ("record", "-o", output, "--", *command)
    state = {"XDG_STATE_HOME": str(places.root / "state")}
    result = completed(*requested, under=few, env=places.env | state)
    assert json.loads((output / "meta.json").read_text())["capture"]["method"] == "preload"
    assert result.stderr.splitlines() == [
        "spillcast: cannot use eBPF (refused by the kernel), perf events (Too many open files): "
        "the preload library instead",
        f"spillcast: {PROPOSAL}",
    ]
    refused = spillcast(
        "record", "--force", "--capture", "perf", *requested[1:], under=few, env=places.env
    )
    assert "raise ulimit -n, which is 64" in only_line(refused, 2)
