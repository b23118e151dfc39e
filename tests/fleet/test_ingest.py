"""What an ingest stores: every wait once, despite interruptions and errors."""

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import nullcontext

import duckdb
import fsspec
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from cases import cases
from evidence import recording
from fleet_files import IDLE, READ, contents, waits, write_fleet, write_trace
from harness import CONFINED, completed, only_line, spillcast, until
from spillcast.errors import LockTaken, PathMissing, WriteFailed
from spillcast.fleet.dataset import Dataset, place
from spillcast.fleet.ingest import find_sources, ingest

#: Runs spillcast with small batches, so that some tens of traces make many.
IN_SMALL_BATCHES = (
    "import sys, spillcast.fleet.ingest as batch; batch.BATCH_FILES = 3; "
    "from spillcast.cli import main; main()"
)


def close(folder):
    """Makes it unreadable, except for a privileged process."""
    folder.chmod(0)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)


def facts(dataset, query="from facts"):
    parts = [str(dataset / part) for part in Dataset.open(str(dataset)).parts("facts")]
    with duckdb.connect() as connection:
        connection.execute(f"create view facts as from read_parquet({parts})")
        return connection.sql(query).fetchall()


def test_every_wait_is_counted_once(tmp_path):
    made = waits(1, 500)
    write_trace(tmp_path / "a.trc", made)
    ingest([str(tmp_path / "a.trc")], str(tmp_path / "fleet"))
    expected = defaultdict(lambda: [0, 0, 0])
    for sql, event, blocks, us in made:
        row = expected[sql, event]
        row[0] += 1
        row[1] += us
        row[2] += blocks or 0
    result = facts(
        tmp_path / "fleet",
        "select sql_id, event, count, total_us, blocks from facts where measure = 'wait'",
    )
    assert {(sql, event): list(sums) for sql, event, *sums in result} == expected
    idle = facts(tmp_path / "fleet", "select distinct event from facts where idle")
    assert idle == [(IDLE,)]
    cpu = facts(tmp_path / "fleet", "select sum(total_us) from facts where measure = 'cpu'")
    assert cpu == [(7 * 4,)]


def test_database_and_day_are_taken_from_the_header(tmp_path):
    # Two instances of a cluster are the same database.
    for number, instance in enumerate(("erp1", "erp2")):
        write_trace(
            tmp_path / f"{instance}.trc", waits(number), instance=instance, host=f"db{number}"
        )
    ingest([str(tmp_path)], str(tmp_path / "fleet"))
    folders = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("facts/**/*.par*")}
    assert folders == {"fleet/facts/database=erp/day=2026-03-02"}
    rows = Dataset.open(str(tmp_path / "fleet")).sources.to_pylist()
    assert {(row["instance"], row["host"]) for row in rows} == {("erp1", "db0"), ("erp2", "db1")}


def test_a_file_is_identified_by_its_content(tmp_path):
    write_fleet(tmp_path / "traces", 6)
    target = str(tmp_path / "fleet")
    assert ingest([str(tmp_path / "traces")], target).files == 6
    before = contents(tmp_path / "fleet")
    (tmp_path / "traces").rename(tmp_path / "elsewhere")
    again = ingest([str(tmp_path / "elsewhere")], target)
    assert (again.files, again.seen_before) == (0, 6)
    assert contents(tmp_path / "fleet") == before
    # The same content twice in a single ingest.
    new = write_trace(tmp_path / "new.trc", waits(99))
    (tmp_path / "copy.trc").write_bytes(new.read_bytes())
    more = ingest([str(tmp_path / "*.trc")], target)
    assert (more.files, more.seen_before) == (1, 1)


def test_known_content_is_not_read_again(tmp_path, monkeypatch):
    traces = write_fleet(tmp_path / "traces", 6)
    (traces / "no.trc").write_text("nothing of a trace\n" * 9)
    target = str(tmp_path / "fleet")
    done = ingest([str(traces)], target)
    assert (done.files, len(done.set_aside)) == (6, 1)
    read = []
    monkeypatch.setattr("spillcast.fleet.ingest.read_trace", read.append)
    again = ingest([str(traces)], target)
    assert (again.seen_before, again.set_aside) == (6, done.set_aside)
    assert read == []


@pytest.mark.nightly
def test_an_ingest_killed_three_times_and_resumed_equals_an_uninterrupted_one(tmp_path):
    traces = write_fleet(tmp_path / "traces", 60)
    arguments = ("ingest", str(traces), "-o")
    command = [sys.executable, "-c", IN_SMALL_BATCHES, *arguments]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*command, whole], check=True, stdout=subprocess.DEVNULL)
    logs = killed / "log"
    for at_least in (2, 7, 12):
        child = subprocess.Popen([*command, killed], stdout=subprocess.DEVNULL)

        def far_enough(child=child, at_least=at_least):
            # It may have ended before this progress was observed.
            return child.poll() is not None or len(list(logs.glob("*.parquet"))) >= at_least

        until(far_enough, f"{at_least} batches")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        named = {*Dataset.open(str(killed)).parts("facts")}
        assert all((killed / part).exists() for part in named)
    result = subprocess.run([*command, killed, "--json"], check=True, capture_output=True)
    assert json.loads(result.stdout)["seen_before"] >= 36
    assert contents(killed) == contents(whole)
    assert len(contents(whole)) > 20


def test_leftovers_of_a_killed_ingest_do_not_count(tmp_path):
    write_fleet(tmp_path / "traces", 3)
    target = tmp_path / "fleet"
    ingest([str(tmp_path / "traces")], str(target))
    before = contents(target)
    part = next(iter(Dataset.open(str(target)).parts("facts")))
    (target / part).with_name("orphan.parquet").write_bytes(b"half")
    (target / "log" / "x.parquet.1.partial").write_bytes(b"half")
    assert Dataset.open(str(target)).sources.num_rows == 3
    ingest([str(tmp_path / "traces")], str(target))
    assert contents(target) == before


def test_a_folder_of_unfinished_downloads_is_not_used_for_a_dataset(tmp_path):
    write_fleet(tmp_path / "traces", 1)
    mine = tmp_path / "downloads" / "film" / "part1.partial"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"half a film")
    with pytest.raises(PathMissing):
        ingest([str(tmp_path / "traces")], str(tmp_path / "downloads"))
    ingest([str(tmp_path / "traces")], str(tmp_path / "fleet"))
    beside = tmp_path / "fleet" / "mine.partial"
    beside.write_bytes(b"half of another")
    ingest([str(tmp_path / "traces")], str(tmp_path / "fleet"))
    assert mine.read_bytes() == b"half a film"
    assert beside.exists()


def test_damaged_files_are_set_aside_and_listed(tmp_path):
    write_fleet(tmp_path / "in", 2)
    good = (tmp_path / "in" / "erp0" / "erp0_ora_0.trc").read_bytes()
    (tmp_path / "in" / "no.trc").write_text("nothing of a trace\n")
    (tmp_path / "in" / "cut.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "in" / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "in" / "cut.trc.gz").write_bytes(gzip.compress(good + b" \n")[:-40])
    done = ingest([str(tmp_path / "in")], str(tmp_path / "fleet"))
    assert done.files == 3
    aside = {row["file"].rpartition("/")[2]: row["what"] for row in done.set_aside}
    assert aside.keys() == {"no.trc", "cut.parquet", "other.csv"}
    assert "no waits and no calls of an extended SQL trace" in aside["no.trc"]
    # Rows before the cut count, and the cut is reported.
    assert done.damaged[-1]["what"] == "compressed file cut short"
    again = ingest([str(tmp_path / "in")], str(tmp_path / "fleet"))
    assert (again.seen_before, again.set_aside) == (3, done.set_aside)
    for _ in range(2):
        result = spillcast("ingest", tmp_path / "in" / "no.trc", "-o", tmp_path / "other")
        assert result.returncode == 2
        assert "1 set aside\n" in result.stdout
    as_json = spillcast(
        "ingest", tmp_path / "in" / "cut.parquet", "-o", tmp_path / "third", "--json"
    )
    assert (as_json.returncode, len(json.loads(as_json.stdout)["set_aside"])) == (2, 1)
    assert f"spillcast: {tmp_path}/in/no.trc: set aside: no waits and no calls" in result.stderr
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "no.trc").write_text("nothing of a trace\n")
    nothing = spillcast("fleet", tmp_path / "bad", "--to", "latency:1ms")
    assert nothing.returncode == 2
    assert nothing.stderr.splitlines()[-1].startswith(f"spillcast: {tmp_path}/bad: ")


def test_a_bad_file_of_each_kind_does_not_end_an_ingest(tmp_path):
    """Each is reported on stderr and in the document, and good files are ingested."""
    folder = tmp_path / "in"
    write_fleet(folder, 2)
    bad = {
        "deep.json": b"[" * 100_000,
        "infinite.json": b'[{"Plan": {"Node Type": "Sort", "Temp Read Blocks": Infinity}}]',
        "half.parquet": b"PAR1 and no more PAR1",
        "late.csv": b"SAMPLE_TIME,EVENT\n9999-12-31 23:59:59,x\n",
    }
    for name, content in bad.items():
        (folder / name).write_bytes(content)
    cut = recording(folder / "cut.spill", [("read", 8192, 9, 1000)], elapsed_s=1.0).path
    pq.write_table(pq.read_table(cut / "waits.parquet").slice(0, 4), cut / "waits.parquet")
    result = completed("ingest", folder, "-o", tmp_path / "fleet", "--database", "erp", "--json")
    done = json.loads(result.stdout)
    assert done["files"] == 2
    names = {row["file"].rpartition("/")[2] for row in done["set_aside"]}
    assert names == {*bad, "cut.spill"}
    matches = [line for line in result.stderr.splitlines() if ": set aside: " in line]
    assert len(matches) == len(names)
    assert all(any(f"/{name}: " in line for line in matches) for name in names)
    assert "it holds 4 waits, and meta.json counts 9" in result.stderr


def test_an_unreadable_file_is_retried(tmp_path):
    write_fleet(tmp_path / "in", 2)
    (tmp_path / "in" / "gone.trc").symlink_to(tmp_path / "later.txt")
    done = ingest([str(tmp_path / "in")], str(tmp_path / "fleet"))
    assert done.files == 2
    assert [row["what"] for row in done.unread] == ["No such file or directory"]
    write_trace(tmp_path / "later.txt", waits(9))
    assert ingest([str(tmp_path / "in")], str(tmp_path / "fleet")).files == 1


def test_an_unreadable_folder_is_retried(tmp_path):
    write_fleet(tmp_path / "in", 2)
    closed = tmp_path / "in" / "closed"
    closed.mkdir()
    write_trace(closed / "more.trc", waits(9))
    close(closed)
    command = ["ingest", tmp_path / "in", "-o", tmp_path / "fleet", "--json"]
    done = json.loads(spillcast(*command, under=CONFINED).stdout)
    assert done["files"] == 2
    assert [row["file"] for row in done["unread"]] == [str(closed)]
    closed.chmod(0o755)
    assert json.loads(spillcast(*command).stdout)["files"] == 1


@pytest.mark.parametrize(("number", "error"), [("EAGAIN", LockTaken), ("ENOLCK", WriteFailed)])
def test_a_folder_without_locks_is_not_reported_as_in_use(tmp_path, monkeypatch, number, error):
    def flock(*_):
        raise OSError(getattr(errno, number), number)

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(error), place(str(tmp_path / "fleet")).locked():
        pass


def test_a_log_that_cannot_be_listed_loses_no_part(tmp_path):
    """Parts that are not in the log count as left by a killed ingest."""
    write_fleet(tmp_path / "in", 2)
    ingest([str(tmp_path / "in")], str(tmp_path / "fleet"))
    close(tmp_path / "fleet" / "log")
    write_trace(tmp_path / "in" / "more.trc", waits(9))
    result = spillcast("ingest", tmp_path / "in", "-o", tmp_path / "fleet", under=CONFINED)
    assert result.returncode
    (tmp_path / "fleet" / "log").chmod(0o755)
    assert len(list((tmp_path / "fleet" / "facts").rglob("*.parquet"))) > 0
    assert facts(tmp_path / "fleet", "select sum(count) from facts")[0][0] > 0


def test_an_unreadable_folder_at_the_root_is_skipped(tmp_path):
    write_fleet(tmp_path / "in", 2)
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    close(tmp_path / "disk" / "lost+found")
    completed("ingest", tmp_path / "in", "-o", tmp_path / "disk", under=CONFINED)


@pytest.mark.parametrize("call", ["info", "ls"])
def test_an_object_store_that_is_temporarily_unavailable_loses_no_part(tmp_path, monkeypatch, call):
    write_fleet(tmp_path / "in", 2)
    target = f"memory://a-moment-of-{call}"
    ingest([str(tmp_path / "in")], target)
    parts = place(target).names("facts")
    is_ls = call == "ls"
    listed = MemoryFileSystem.ls

    def refused(filesystem, path, *options, **more):
        if is_ls and not path.endswith("log"):
            return listed(filesystem, path, *options, **more)
        raise OSError("timed out")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, call, refused)
        with pytest.raises(OSError, match="timed out") if is_ls else nullcontext():
            Dataset.open(target).begin()
    assert place(target).names("facts") == parts != []


def test_one_writer_at_a_time(tmp_path):
    write_fleet(tmp_path / "in", 2)
    target = str(tmp_path / "fleet")
    with (
        Dataset.open(target, create=True).place.locked(),
        pytest.raises(LockTaken),
    ):
        ingest([str(tmp_path / "in")], target)


@cases("scheme", ["file", "memory"])
def test_any_kind_of_address(tmp_path, scheme):
    traces = write_fleet(tmp_path / "traces", 6)
    local = tmp_path / "local"
    ingest([str(traces)], str(local))
    if scheme == "memory":
        filesystem = fsspec.filesystem("memory")
        for path in traces.rglob("*.trc"):
            filesystem.pipe_file(f"/in/{path.name}", path.read_bytes())
        source, target = "memory://in", "memory://fleet"
    else:
        source, target = f"file://{traces}", f"file://{tmp_path}/fleet"
    done = ingest([source], target)
    assert done.files == 6
    assert ingest([source], target).seen_before == 6
    rows = [
        sorted(Dataset.open(address).sources["source"].to_pylist())
        for address in (str(local), target)
    ]
    assert rows[0] == rows[1]
    from spillcast.fleet.fleet import fleet

    documents = [fleet(address, "latency:150us").to_json() for address in (str(local), target)]
    for document in documents:
        del document["dataset"]
    assert documents[0] == documents[1]


def test_a_recording_at_an_address_is_the_outermost_folder_with_one():
    """Keys of an object store may have empty names between slashes."""
    filesystem = fsspec.filesystem("memory")
    for name in ("day//run.spill/meta.json", "day/old/meta.json", "day/old/sub/meta.json"):
        filesystem.pipe_file(f"/store/{name}", b"{}")
    sources = find_sources(["memory://store"])
    assert [source.name for source in sources] == [
        "memory://store/day//run.spill",
        "memory://store/day/old",
    ]


def test_bad_input_is_reported_in_one_line(tmp_path):
    write_fleet(tmp_path / "in", 1)
    other = tmp_path / "other"
    other.mkdir()
    (other / "dataset.json").write_text('{"schema": "spillcast.dataset/9"}')
    for verb in (("ingest", tmp_path / "in", "-o", other), ("fleet", other, "--to", "factor:2")):
        message = only_line(spillcast(*verb), 2)
        assert "'spillcast.dataset/9'" in message
        assert "'spillcast.dataset/2'" in message
    # A folder with other content cannot become a dataset.
    assert "no dataset" in only_line(spillcast("ingest", tmp_path / "in", "-o", tmp_path / "in"), 2)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no evidence" in only_line(spillcast("ingest", empty, "-o", tmp_path / "x"), 2)
    missing = spillcast("ingest", tmp_path / "missing", "-o", tmp_path / "x")
    assert "no such file" in only_line(missing, 2)
    assert not (tmp_path / "x").exists()


def test_a_full_disk_leaves_no_partial_file_and_the_ingest_can_be_resumed(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    small = tmp_path / "small"
    small.mkdir()
    options = ["-t", "tmpfs", "-o", "size=300k", "tmpfs", str(small)]
    if subprocess.run(["mount", *options], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is refused here")
    try:
        traces = write_fleet(tmp_path / "traces", 60)
        command = [sys.executable, "-c", IN_SMALL_BATCHES, "ingest", str(traces), "-o"]
        full = subprocess.run([*command, small / "fleet"], capture_output=True, text=True)
        assert "No space left" in only_line(full, 1)
        target = Dataset.open(str(small / "fleet"))
        assert 0 < target.sources.num_rows < 60
        assert all((small / "fleet" / part).exists() for part in target.parts("facts"))
        assert not list(small.rglob("*.partial"))
        assert sum(n for (n,) in facts(small / "fleet", "select count from facts where op is null"))
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        subprocess.run([*command, small / "fleet"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*command, tmp_path / "whole"], check=True, stdout=subprocess.DEVNULL)
        assert contents(small / "fleet") == contents(tmp_path / "whole")
    finally:
        subprocess.run(["umount", small], check=True)


def test_an_ash_export_needs_a_database(tmp_path):
    export = tmp_path / "ash.csv"
    lines = ["SAMPLE_TIME,SESSION_ID,SQL_ID,SESSION_STATE,EVENT,TIME_WAITED"]
    for second in range(20):
        lines.append(f"2026-03-02 23:59:{40 + second},7,abc,WAITING,{READ},20000")
    for second in range(10):
        lines.append(f"2026-03-03 00:00:0{second},7,abc,ON CPU,,0")
    export.write_text("\n".join(lines) + "\n")
    refused = ingest([str(export)], str(tmp_path / "x"))
    assert "--database NAME" in refused.set_aside[0]["what"]
    ingest([str(export)], str(tmp_path / "fleet"), database="erp")
    result = facts(
        tmp_path / "fleet",
        "select measure, event, count, total_us from facts order by all",
    )
    # 20 s on the first day, and on the next 10 s, which are all CPU.
    assert ("active", "", 20, 20_000_000) in result
    assert ("active", "", 10, 10_000_000) in result
    assert ("wait", READ, 20, 20_000_000) in result
