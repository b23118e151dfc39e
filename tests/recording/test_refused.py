"""Where perf events or privileges are refused: what still works, and what is said."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from harness import (
    account_of,
    available,
    completed,
    expected_rows,
    only_line,
    ordinary_user,
    refuse_bpf,
    refuse_tracing,
    rows,
    spillcast,
    target,
)
from spillcast.report.recording import PROPOSAL


def record(places, capture, under):
    output = places.root / "run.spill"
    command = target(
        "spill", "--file", places.temp / "spill", "--base", places.base, "--threads", 3
    )
    result = completed(
        "record", "--capture", capture, "-o", output, "--", *command,
        under=under, env=places.env | {"HOME": str(places.root)},
    )  # fmt: skip
    account = account_of(result.stdout)
    files = {operation[5] for operation in account["account"]}
    assert rows(output, files=files) == expected_rows(account, base=places.base)
    return json.loads((output / "meta.json").read_text())


def test_without_privilege(open_places):
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2:
        pytest.skip("perf_event_paranoid is above 2: no ordinary user may use perf events")
    open_places.root.chmod(0o777)
    meta = record(open_places, "perf", ordinary_user())
    assert meta["capture"]["method"] == "perf"
    assert meta["capture"]["lost"] == 0


def test_without_privilege_by_preload(open_places):
    assert record(open_places, "preload", ordinary_user())["capture"]["method"] == "preload"


def test_auto_falls_back_to_preload(places):
    assert record(places, "auto", refuse_tracing())["capture"]["method"] == "preload"


def test_auto_falls_back_to_perf(places):
    assert record(places, "auto", refuse_bpf())["capture"]["method"] == "perf"


def test_auto_prefers_bpf(places):
    available("bpf")
    assert record(places, "auto", ())["capture"]["method"] == "bpf"


def test_perf_that_was_asked_for_is_not_replaced(places):
    result = spillcast(
        "record", "--capture", "perf", "-o", places.root / "x.spill", "--", "true",
        under=refuse_tracing(),
    )  # fmt: skip
    assert "--capture preload" in only_line(result, 2)
    assert not (places.root / "x.spill").exists()


def test_ebpf_that_was_asked_for_is_not_replaced(places):
    available("bpf")
    result = spillcast(
        "record", "--capture", "bpf", "-o", places.root / "x.spill", "--", "true",
        under=refuse_bpf(),
    )  # fmt: skip
    text = only_line(result, 2)
    assert "cannot observe a command: refused by the kernel" in text
    assert "CAP_BPF" in text
    assert not (places.root / "x.spill").exists()


def test_why_another_source_observes_is_one_line(places):
    available("bpf")
    result = completed(
        "record", "-o", places.root / "x.spill", "--",
        *target("spill", "--file", places.temp / "spill", "--base", places.base),
        under=refuse_bpf(), env=places.env | {"XDG_STATE_HOME": str(places.root / "state")},
    )  # fmt: skip
    assert result.stderr.splitlines() == [
        "spillcast: cannot use eBPF (refused by the kernel): perf events instead",
        f"spillcast: {PROPOSAL}",
    ]


@pytest.mark.nightly
def test_the_source_is_named_once_for_each_reason(places):
    available("bpf")
    command = target("spill", "--file", places.temp / "spill", "--base", places.base)
    env = places.env | {"XDG_STATE_HOME": str(places.root / "state")}

    outputs = (places.root / f"{number}.spill" for number in range(9))

    def recorded(*requested, under=()):
        words = ("record", *requested, "-o", next(outputs), "--", *command)
        result = completed(*words, under=under, env=env)
        return [title for title in ("eBPF", "perf events") if title in result.stderr]

    # One that was asked for needs no word.
    assert recorded("--capture", "perf") == []
    assert recorded() == ["eBPF"]
    assert recorded() == []
    assert recorded(under=refuse_bpf()) == ["eBPF", "perf events"]
    assert recorded(under=refuse_bpf()) == []
    assert recorded() == []


def test_a_running_process_where_perf_is_refused(places):
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            result = spillcast(
                "record", "--pid", process.pid, "-o", places.root / "x.spill",
                under=refuse_tracing(),
            )  # fmt: skip
            assert process.poll() is None
        finally:
            process.kill()
    text = only_line(result, 2)
    assert "CAP_PERFMON" in text
    assert "seccomp" in text


def test_another_users_process(open_places):
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    open_places.root.chmod(0o777)
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            result = spillcast(
                "record", "--pid", process.pid, "-o", open_places.root / "x.spill",
                under=ordinary_user(), env=open_places.env,
            )  # fmt: skip
            assert process.poll() is None
        finally:
            process.kill()
    text = only_line(result, 2)
    assert "another user" in text
    assert "as root" in text


def test_preload_cannot_join_a_running_process(places):
    result = spillcast(
        "record", "--capture", "preload", "--pid", os.getpid(), "-o", places.root / "x.spill"
    )
    assert "--capture preload -- COMMAND" in only_line(result, 2)


def test_without_proc_it_says_what_mends_that(places):
    if os.geteuid() != 0:
        pytest.skip("only root can take /proc away")
    command = 'umount -l /proc && exec "$@"'
    under = ["unshare", "-m", "sh", "-c", command, "sh"]
    result = spillcast("record", "-o", places.root / "x.spill", "--", "true", under=under)
    assert "mount -t proc" in only_line(result, 2)
