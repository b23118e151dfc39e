"""Inside a container as Docker makes it: its capabilities, process ids and system calls."""

import json
import os
import shutil

import pytest

from harness import (
    account_of,
    available,
    check_rows,
    completed,
    error_code,
    only_line,
    refuse_io_uring,
    refuse_tracing,
    spill_in,
    spillcast,
)

#: The capabilities that Docker leaves to root, and those that docs/guides/install.md adds.
CAPABILITIES = (
    "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw "
    "sys_chroot mknod audit_write setfcap"
)
ADDED = "bpf perfmon sys_ptrace"
OWN_IDS = ["unshare", "--pid", "--fork", "--mount-proc"]


@pytest.fixture(autouse=True)
def _may():
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("capabilities are given up by root, with setpriv")


def capabilities(*names):
    kept = ",".join(["-all", *(f"+{name}" for item in names for name in item.split())])
    return ["setpriv", "--bounding-set", kept, "--inh-caps", kept]


def plain():
    """As `docker run` without a flag."""
    return [*OWN_IDS, *capabilities(CAPABILITIES), *refuse_tracing(), *refuse_io_uring()]


def record(places, under):
    """The capture method, and the output."""
    output = places.root / "run.spill"
    (places.temp / "spill").unlink(missing_ok=True)
    command = spill_in(places)
    result = completed(
        "record", "--force", "-o", output, "--", *command, under=under, env=places.env
    )
    account = account_of(result.stdout)
    check_rows(output, account, base=places.base)
    return json.loads((output / "meta.json").read_text())["capture"]["method"], result.stderr


def test_a_plain_container_records_a_command(places):
    method, answer = record(places, plain())
    assert method == "preload"
    assert "process ids are those of a container" in answer


def test_ebpf_needs_the_process_ids_of_the_host(places):
    available("bpf")
    given = capabilities(CAPABILITIES, ADDED)
    method, answer = record(places, [*OWN_IDS, *given])
    assert method == "perf"
    assert "process ids are those of a container" in answer
    assert record(places, given)[0] == "bpf"


def test_emulate_names_the_missing_capability(places):
    places.temp.mkdir(exist_ok=True)
    words = ["emulate", places.temp, "--read", "1ms", "--", "true"]
    text = only_line(spillcast(*words, under=capabilities(CAPABILITIES)), 1)
    assert "CAP_SYS_ADMIN" in text


def test_a_proc_of_other_process_ids_is_refused(places):
    other_ids = ["unshare", "--pid", "--fork"]
    output = places.root / "run.spill"
    result = spillcast("record", "--json", "-o", output, "--", "true", under=other_ids)
    assert (result.returncode, output.exists()) == (2, False)
    assert error_code(result) == "capture-unavailable"
    document = json.loads(spillcast("doctor", "--json", under=other_ids).stdout)["findings"]
    assert not next(item for item in document if item["name"] == "/proc")["works"]


def test_doctor_names_what_a_container_lacks():
    document = json.loads(spillcast("doctor", "--json", under=plain()).stdout)["findings"]
    works = {item["name"]: item["works"] for item in document}
    mends = {item["name"]: item["fix"] for item in document}
    assert works["preload"]
    assert not works["bpf"]
    assert not works["perf"]
    assert not works["FUSE"]
    assert "--pid=host" in mends["bpf"]
    assert "--cap-add PERFMON" in mends["perf"]
    assert "--cap-add SYS_ADMIN" in mends["FUSE"]
