"""Storage that is full, limited by a quota, or part of a cache: each is reported with a remedy."""

import errno
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import replace

import pytest

from cases import cases
from evidence import recording as made_up
from evidence import storage, warned
from spillcast.errors import OptionInvalid, Refusal, SpaceExhausted
from spillcast.forecast import forecast
from spillcast.storage import free_space as limits
from spillcast.storage.free_space import ALL_FREE, Budget, check_free_space, parse_budget
from spillcast.storage.probe import failures_as_errors, probe
from spillcast.storage.source import catalogue
from spillcast.storage.target import resolve
from spills import MIB, recording, written_and_read

K = 1 << 10


@pytest.fixture(scope="module")
def spill(tmp_path_factory):
    """160 MiB in two files, written and read back."""
    path = tmp_path_factory.mktemp("room") / "run.spill"
    return recording(path, written_and_read(80 * MIB, files=2), gap_ns=0)


@contextmanager
def nearly_full(room, free_bytes):
    """An ext4 file system in a file, with this many bytes free for everyone."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("root and mkfs.ext4 are wanted to make a file system")
    image, point = room / "image", room / "mounted"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(512 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], check=True)
    mount = subprocess.run(["mount", "-o", "loop", image, point], capture_output=True, text=True)
    if mount.returncode != 0:
        pytest.skip(f"no loop device: {mount.stderr.strip()}")
    try:
        stat = os.statvfs(point)
        with (point / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, stat.f_bavail * stat.f_frsize - free_bytes)
        yield point
    finally:
        subprocess.run(["umount", "-l", point], check=True)


@cases(
    ("free_mib", "code", "words"),
    [
        (140, "no-space", "temp files take up to 160 MiB"),
        (180, "little-space", "temp files take up to 160 MiB"),
        (260, None, ""),
    ],
)
def test_too_little_free_space_is_a_warning(spill, tmp_path, free_mib, code, words):
    with nearly_full(tmp_path, free_mib * MIB) as point:
        target = probe(point, spill, budget=Budget(bytes=16 * MIB))
        texts = warned(forecast(spill, target))
        assert set(os.listdir(point)) <= {"lost+found", "filler"}
    free = target.facts["free_bytes"]
    assert (free_mib - 2) * MIB < free <= (free_mib + 1) * MIB
    assert {"no-space", "little-space"} & set(texts) == ({code} if code else set())
    if code:
        assert texts[code].startswith(words)
        assert str(point) in texts[code]
        # A quarter more than the spill.
        assert texts[code].endswith("free 200 MiB there, or choose larger storage")


class TestQuota:
    """The kernel's answer is replaced; everything else is derived from it."""

    @pytest.fixture
    def left(self, monkeypatch):
        """The bytes left of each quota."""
        answers = {}
        monkeypatch.setattr(
            limits, "quota_left_bytes", lambda _dir, kind, number: answers.get((kind, number))
        )
        return answers

    @pytest.fixture
    def owned(self, tmp_path):
        """A directory of user and group 1234, whose files get its group."""
        if os.geteuid() != 0:
            pytest.skip("root is wanted to give a directory away")
        folder = tmp_path / "owned"
        folder.mkdir()
        os.chown(folder, 1234, 1234)
        folder.chmod(0o2755)
        return folder

    def test_the_rest_of_the_quota_is_the_free_space(self, spill, owned, left):
        left["user", 1234] = 150 * MIB
        left["group", 1234] = 900 * MIB
        target = probe(owned, spill, budget=Budget(bytes=16 * MIB))
        assert target.facts["quota_free_bytes"] == 150 * MIB
        text = warned(forecast(spill, target))["no-space"]
        assert "had 150 MiB free by the quota of user 1234" in text
        with pytest.raises(Refusal, match="150 MiB free by the quota of user 1234"):
            check_free_space(spill, owned)
        left["group", 1234] = 100 * MIB
        assert limits.quota_of(owned) == limits.Quota(100 * MIB, "group 1234")

    def test_enough_space_gives_no_warning(self, spill, owned, left):
        left["user", 1234] = 900 * MIB
        target = probe(owned, spill, budget=Budget(bytes=16 * MIB))
        assert not {"no-space", "little-space"} & warned(forecast(spill, target)).keys()

    def test_quotas_do_not_apply_to_root(self, tmp_path, left):
        left["user", 0] = left["group", 0] = 1
        assert limits.quota_of(tmp_path) is None or os.geteuid() != 0

    def test_in_a_shared_directory_the_quota_of_the_caller_applies(self, owned, left, monkeypatch):
        owned.chmod(0o1777)
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
        left["user", 4321] = 5
        left["user", 1234] = 1
        assert limits.quota_of(owned) == limits.Quota(5, "user 4321")


def test_the_answer_of_the_kernel_is_parsed(monkeypatch, tmp_path):
    """struct if_dqblk of linux/quota.h: eight numbers of 64 bits, then one of 32."""
    fields = {
        name: getattr(limits._Quota, name).offset for name in ("hard", "soft", "used", "valid")
    }
    assert fields == {"hard": 0, "soft": 8, "used": 16, "valid": 64}

    class Kernel:
        def __init__(self, *_, **__):
            self.syscall = self.answer

        def answer(self, call, descriptor, command, number, result):
            assert (call, number) == (443, 1234)
            assert command == 0x80000700 + 1
            assert os.fstat(descriptor).st_ino == tmp_path.stat().st_ino
            # Limits in KiB, use in bytes.
            result._obj.hard, result._obj.soft, result._obj.used = 2048, 1024, 1 << 20
            return 0

    monkeypatch.setattr(limits.ctypes, "CDLL", Kernel)
    assert limits.quota_left_bytes(tmp_path, "group", 1234) == 1 << 20


def test_without_quotas_the_rest_is_unknown(tmp_path):
    assert limits.quota_left_bytes(tmp_path, "user", 54321) is None


def test_a_quota_exhausted_during_a_probe_is_reported(tmp_path):
    with pytest.raises(SpaceExhausted) as caught, failures_as_errors(tmp_path):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")
    assert caught.value.message == f"{tmp_path}: the disk quota there is used up"
    assert "quota(1)" in caught.value.hint


class TestCache:
    """Warnings of a storage also apply to a cache that contains it."""

    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        """Operations of 256 KiB."""
        monkeypatch.chdir(tmp_path)
        loads = [("write", 256 * K, 200, 4_000_000), ("read", 256 * K, 200, 6_000_000)]
        return made_up(tmp_path / "run.spill", loads, elapsed_s=25.0, cpu_s=5.0)

    def save(self, run, name, latencies, **facts):
        target = replace(storage(latencies, name=name), facts=facts)
        target.save(run.path.with_name(f"{name}.json"))
        return target

    def test_a_network_behind_a_cache_is_reported(self, run):
        latencies = {("write", 256 * K): 400_000, ("read", 256 * K): 300_000}
        self.save(run, "far", latencies, network=True, filesystem="nfs4")
        self.save(run, "near", latencies, steps_replayed=50, steps_skipped=50)
        texts = warned(forecast(run, resolve("cache:near.json+far.json?size=2T", run)))
        assert texts["network"].startswith("far: nfs4 is network storage")
        assert texts["budget"] == "near: the probe's budget was enough for 50 % of the I/O"

    def test_figures_of_other_sizes_are_reported_and_do_not_narrow_the_interval(self, run):
        """Measured only with 4 and 8 KiB, and used for 256 KiB."""
        small = {("write", size): 100 * size // K for size in (4 * K, 8 * K)}
        small |= {("read", size): 100 * size // K for size in (4 * K, 8 * K)}
        alone = forecast(run, self.save(run, "small", small))
        inside = forecast(run, resolve("cache:small.json+small.json?size=2T", run))
        assert "extrapolated" in warned(alone)
        assert warned(inside)["extrapolated"].startswith(
            "small: 100 % of its I/O has sizes outside"
        )
        assert inside.half_width == pytest.approx(alone.half_width, rel=0.35)

    def test_a_row_of_the_catalogue_applies_to_any_size(self, run):
        figures = {("write", 8 * K): 100_000, ("read", 8 * K): 100_000}
        row = replace(
            self.save(run, "row", figures), source=catalogue(1.5, "x"),
            facts={"spread": 1.5, "source": "x"},
        )  # fmt: skip
        row.save(run.path.with_name("row.json"))
        texts = warned(forecast(run, resolve("cache:row.json+row.json?size=2T", run)))
        assert "extrapolated" not in texts


def test_the_limit_of_dirty_pages_applies_only_to_disks():
    """FUSE has a separate limit (``strictlimit`` in fs/fuse/inode.c); memory has none."""
    known = ("ext4", "nfs4", "fuse", "fuse.sshfs", "fuseblk", "virtiofs", "tmpfs")
    limited = [name for name in known if limits.dirty_limit_bytes(name)]
    assert limited == ["ext4", "nfs4"]


def test_a_file_system_without_a_size_is_not_full(spill, tmp_path):
    """It reports no blocks, none of which are free."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=0", "tmpfs", tmp_path]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted")
    try:
        assert os.statvfs(tmp_path).f_blocks == 0
        assert Budget().limits(tmp_path)["budget_bytes"] is None
        check_free_space(spill, tmp_path)
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


@cases(
    ("text", "time_s", "count"),
    [
        ("60s", 60, None),
        ("90", 90, None),
        ("2m", 120, None),
        ("1.5h", 5400, None),
        ("4G", 60, 4 << 30),
        ("512M", 60, 512 << 20),
        ("10MB", 60, 10 << 20),
        ("1.5GiB", 60, 3 << 29),
        ("2m,2M", 120, 2 << 20),
        ("4G, 30s", 30, 4 << 30),
    ],
)
def test_a_budget_is_a_time_or_bytes_or_both(text, time_s, count):
    assert parse_budget(text) == Budget(time_s, count)


@cases("text", ["", "soon", "60s,", "60s,2m", "1G,2G", "60s,1G,1G", "-1s", "1X"])
def test_an_invalid_budget_is_refused(text):
    with pytest.raises(OptionInvalid) as caught:
        parse_budget(text)
    assert f"--budget {text}" in caught.value.message


def test_the_default_budget_is_a_tenth_of_the_free_space(tmp_path):
    stats = os.statvfs(tmp_path)
    tenth = pytest.approx(stats.f_bavail * stats.f_frsize / 10, rel=0.2)
    assert Budget().limits(tmp_path) == {"budget_s": 60, "budget_bytes": tenth}
    assert Budget(5, 7).limits(tmp_path) == {"budget_s": 5, "budget_bytes": 7}
    assert ALL_FREE.limits(tmp_path)["budget_bytes"] is None


def test_a_spill_above_the_budget_is_replayed_in_part_with_a_warning(spill, tmp_path):
    storage = probe(tmp_path, spill, budget=Budget(bytes=64 * MIB))
    facts = storage.facts
    assert facts["working_set_bytes"] == 160 * MIB
    kept = facts["byte_share"] * 160 * MIB
    # Whole regions of 16 MiB, as many as fit.
    assert kept == 64 * MIB
    steps = {group.op: group.count for group in storage.groups}
    assert steps == {"write": kept / (256 << 10), "read": kept / (256 << 10)}
    # Every retained read follows its write.
    assert facts["prefilled_bytes"] == 0
    texts = warned(forecast(spill, storage))
    assert "40.0 %" in texts["byte-budget"]
    assert "was not tested" in texts["byte-budget"]
    assert "--budget 1G" in texts["byte-budget"]


def test_a_spill_within_the_budget_is_replayed_without_a_warning(spill, tmp_path):
    storage = probe(tmp_path, spill, budget=Budget(bytes=160 * MIB))
    assert storage.facts["byte_share"] == 1
    assert "byte-budget" not in warned(forecast(spill, storage))


def test_a_budget_without_room_for_a_region_is_refused(spill, tmp_path):
    with pytest.raises(OptionInvalid, match="more, as in --budget"):
        probe(tmp_path, spill, budget=Budget(bytes=MIB))


def test_network_storage_is_a_warning(spill, tmp_path):
    storage = probe(tmp_path, spill, budget=Budget(bytes=16 * MIB))
    assert storage.facts["network"] is False
    storage.facts["filesystem"], storage.facts["network"] = "nfs4", True
    texts = warned(forecast(spill, storage))
    assert texts["network"].startswith("nfs4 is network storage")
