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
        set(one) == {field.name for field in fields(Finding)} for one in document["findings"]
    )
    return {one["name"]: one for one in document["findings"]}


def test_where_the_kernel_refuses_the_preload_library_is_left():
    bpf_is_built()
    found = findings(refuse_tracing())
    assert found["preload"]["works"]
    for name in ("bpf", "perf"):
        assert not found[name]["works"]
        assert "--security-opt seccomp" in found[name]["fix"]


def test_an_ordinary_user_is_told_what_wants_root():
    bpf_is_built()
    found = findings(ordinary_user())
    assert not found["bpf"]["works"]
    assert found["bpf"]["fix"].startswith("sudo ")


def test_all_that_does_not_work_is_listed_with_its_mend():
    text = spillcast("doctor", under=refuse_tracing()).stdout
    for name, one in findings(refuse_tracing()).items():
        assert name in text
        assert one["works"] or one["fix"] is None or one["fix"] in text


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
        dead = [one for one in diagnose().findings if one.name == "FUSE mount"]
        assert not any(one.works for one in dead)
        (mend,) = [one.fix for one in dead if str(point) in one.detail]
        subprocess.run(mend, shell=True, check=True)
        assert not point.is_mount()
    finally:
        libc.umount2(os.fsencode(point), 2)
    assert str(point) not in "".join(one.detail for one in diagnose().findings)
