"""Where perf events or privileges are refused: what still works, and what is reported."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from cases import cases
from harness import (
    account_of,
    available,
    check_rows,
    completed,
    only_line,
    ordinary_user,
    refuse_bpf,
    refuse_tracing,
    spill_in,
    spillcast,
)
from spillcast.report.recording import PROPOSAL


def record(places, capture, under):
    output = places.root / "run.spill"
    command = spill_in(places, "--threads", 3)
    result = completed(
        "record", "--capture", capture, "-o", output, "--", *command,
        under=under, env=places.env | {"HOME": str(places.root)},
    )  # fmt: skip
    account = account_of(result.stdout)
    check_rows(output, account, base=places.base)
    return json.loads((output / "meta.json").read_text())


def test_perf_works_without_privilege(open_places):
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2:
        pytest.skip("perf_event_paranoid is above 2: no ordinary user may use perf events")
    open_places.root.chmod(0o777)
    meta = record(open_places, "perf", ordinary_user())
    assert meta["capture"]["method"] == "perf"
    assert meta["capture"]["lost"] == 0


def test_preload_works_without_privilege(open_places):
    assert record(open_places, "preload", ordinary_user())["capture"]["method"] == "preload"


@pytest.mark.parametrize(
    ("refuse", "method"), [(refuse_tracing, "preload"), (refuse_bpf, "perf"), (list, "bpf")]
)
def test_auto_takes_the_best_remaining_source(places, refuse, method):
    if method == "bpf":
        available("bpf")
    assert record(places, "auto", refuse())["capture"]["method"] == method


@pytest.mark.parametrize(
    ("capture", "refuse", "words"),
    [
        ("perf", refuse_tracing, "--capture preload"),
        ("bpf", refuse_bpf, "cannot observe a command: refused by the kernel"),
    ],
)
def test_a_requested_source_is_not_replaced(places, capture, refuse, words):
    if capture == "bpf":
        available("bpf")
    output = places.root / "x.spill"
    requested = ("record", "--capture", capture, "-o", output, "--", "true")
    text = only_line(spillcast(*requested, under=refuse()), 2)
    assert words in text
    assert "CAP_BPF" in text or capture == "perf"
    assert not output.exists()


def test_the_reason_for_another_source_is_one_line(places):
    available("bpf")
    result = completed(
        "record", "-o", places.root / "x.spill", "--",
        *spill_in(places),
        under=refuse_bpf(), env=places.env | {"XDG_STATE_HOME": str(places.root / "state")},
    )  # fmt: skip
    assert result.stderr.splitlines() == [
        "spillcast: cannot use eBPF (refused by the kernel): perf events instead",
        f"spillcast: {PROPOSAL}",
    ]


@pytest.mark.nightly
def test_the_source_is_named_once_per_reason(places):
    available("bpf")
    command = spill_in(places)
    env = places.env | {"XDG_STATE_HOME": str(places.root / "state")}

    outputs = (places.root / f"{number}.spill" for number in range(9))

    def recorded(*requested, under=()):
        words = ("record", *requested, "-o", next(outputs), "--", *command)
        result = completed(*words, under=under, env=env)
        return [title for title in ("eBPF", "perf events") if title in result.stderr]

    # A requested source is not mentioned.
    assert recorded("--capture", "perf") == []
    assert recorded() == ["eBPF"]
    assert recorded() == []
    assert recorded(under=refuse_bpf()) == ["eBPF", "perf events"]
    assert recorded(under=refuse_bpf()) == []
    assert recorded() == []


@cases(
    ("is_root", "words"), [(True, ("CAP_PERFMON", "seccomp")), (False, ("another user", "as root"))]
)
def test_a_process_that_may_not_be_observed_is_refused(open_places, is_root, words):
    """Perf is refused to everyone, or the process is another user's."""
    if not is_root and os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    open_places.root.chmod(0o777)
    under = refuse_tracing() if is_root else ordinary_user()
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            result = spillcast(
                "record", "--pid", process.pid, "-o", open_places.root / "x.spill",
                under=under, env=open_places.env,
            )  # fmt: skip
            assert process.poll() is None
        finally:
            process.kill()
    text = only_line(result, 2)
    assert [word for word in words if word not in text] == []


def test_preload_cannot_join_a_running_process(places):
    result = spillcast(
        "record", "--capture", "preload", "--pid", os.getpid(), "-o", places.root / "x.spill"
    )
    assert "--capture preload -- COMMAND" in only_line(result, 2)


def test_without_proc_the_mount_command_is_named(places):
    if os.geteuid() != 0:
        pytest.skip("only root can take /proc away")
    command = 'umount -l /proc && exec "$@"'
    under = ["unshare", "-m", "sh", "-c", command, "sh"]
    result = spillcast("record", "-o", places.root / "x.spill", "--", "true", under=under)
    assert "mount -t proc" in only_line(result, 2)
