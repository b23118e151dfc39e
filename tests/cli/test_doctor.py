"""What is said to work here does, and each refusal comes with a command."""

import ctypes
import json
import os
import subprocess
from dataclasses import fields

import pytest

from harness import bpf_is_built, ordinary_user, refuse_tracing, spillcast
from spillcast.lab.doctor import Diagnosis, Finding, diagnose


def findings(under=()):
    result = spillcast("doctor", "--json", under=under)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert set(document) == {field.name for field in fields(Diagnosis)}
    assert all(
        set(item) == {field.name for field in fields(Finding)} for item in document["findings"]
    )
    return {item["name"]: item for item in document["findings"]}


def test_where_the_kernel_refuses_the_preload_library_is_left():
    bpf_is_built()
    result = findings(refuse_tracing())
    assert result["preload"]["works"]
    for name in ("bpf", "perf"):
        assert not result[name]["works"]
        assert "--security-opt seccomp" in result[name]["fix"]


def test_an_ordinary_user_is_told_what_wants_root():
    bpf_is_built()
    result = findings(ordinary_user())
    assert not result["bpf"]["works"]
    assert result["bpf"]["fix"].startswith("sudo ")


def test_without_new_privileges_a_user_mounts_nothing():
    result = findings([*ordinary_user(), "setpriv", "--no-new-privs"])
    assert not result["FUSE"]["works"]


def test_all_that_does_not_work_is_listed_with_its_mend():
    text = spillcast("doctor", under=refuse_tracing()).stdout
    for name, item in findings(refuse_tracing()).items():
        assert name in text
        assert item["works"] or item["fix"] is None or item["fix"] in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts without a helper")
def test_a_mount_whose_process_has_ended_is_named(tmp_path):
    point = tmp_path / "a storage"
    point.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"spillcast", os.fsencode(point), b"fuse", 0, options):
        os.close(server)
        pytest.skip(f"no FUSE file system here: {os.strerror(ctypes.get_errno())}")
    os.close(server)
    try:
        dead = [item for item in diagnose().findings if item.name == "FUSE mount"]
        assert not any(item.works for item in dead)
        (fix,) = [item.fix for item in dead if str(point) in item.detail]
        subprocess.run(fix, shell=True, check=True)
        assert not point.is_mount()
    finally:
        libc.umount2(os.fsencode(point), 2)
    assert str(point) not in "".join(item.detail for item in diagnose().findings)
