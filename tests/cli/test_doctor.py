"""Features reported to work do work, and each failure comes with a command that fixes it."""

import ctypes
import os
import struct
import subprocess
import threading
from contextlib import suppress
from dataclasses import fields

import pytest

from harness import bpf_is_built, json_of, ordinary_user, refuse_tracing, spillcast
from spillcast.lab.doctor import Diagnosis, Finding, diagnose

#: Constants of the kernel: linux/fuse.h and sys/mount.h.
FUSE_INIT, MNT_FORCE, MNT_DETACH = 26, 1, 2


def findings(under=()):
    document = json_of("doctor", under=under)
    assert set(document) == {field.name for field in fields(Diagnosis)}
    assert all(
        set(item) == {field.name for field in fields(Finding)} for item in document["findings"]
    )
    return {item["name"]: item for item in document["findings"]}


def test_the_preload_library_works_where_the_kernel_refuses_tracing():
    bpf_is_built()
    result = findings(refuse_tracing())
    assert result["preload"]["works"]
    assert not result["bpf"]["works"]
    assert not result["perf"]["works"]
    assert "--security-opt seccomp" in result["perf"]["fix"]


def test_an_ordinary_user_sees_what_needs_root():
    bpf_is_built()
    result = findings(ordinary_user())
    assert not result["bpf"]["works"]
    assert result["bpf"]["fix"].startswith("sudo ")


def test_an_unprivileged_user_without_new_privileges_cannot_mount():
    result = findings([*ordinary_user(), "setpriv", "--no-new-privs"])
    assert not result["FUSE"]["works"]


def test_each_missing_feature_is_listed_with_its_fix():
    text = spillcast("doctor", under=refuse_tracing()).stdout
    for name, item in findings(refuse_tracing()).items():
        assert name in text
        assert item["works"] or item["fix"] is None or item["fix"] in text


LIBC = ctypes.CDLL(None, use_errno=True)
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts without a helper")


@pytest.fixture
def mount(tmp_path):
    """A mount point of FUSE, and its server's file descriptor."""
    point = tmp_path / "a storage"
    point.mkdir()
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if LIBC.mount(b"spillcast", os.fsencode(point), b"fuse", 0, options):
        os.close(server)
        pytest.skip(f"no FUSE file system here: {os.strerror(ctypes.get_errno())}")
    yield point, server
    LIBC.umount2(os.fsencode(point), MNT_DETACH)


@root_only
def test_a_mount_whose_process_has_ended_is_named(mount):
    point, server = mount
    os.close(server)
    dead = [item for item in diagnose().findings if item.name == "FUSE mount"]
    assert not any(item.works for item in dead)
    (fix,) = [item.fix for item in dead if str(point) in item.detail]
    subprocess.run(fix, shell=True, check=True)
    assert not point.is_mount()
    assert str(point) not in "".join(item.detail for item in diagnose().findings)


def test_a_mount_may_have_any_name(tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_bytes(
        b"/dev/sdb1 /media/d\xe9 vfat rw 0 0\nspillcast /no/d\xe9\\040x fuse.spillcast rw 0 0\n"
    )
    monkeypatch.setattr("spillcast.lab.doctor.MOUNTS", mounts)
    (dead,) = [item for item in diagnose().findings if item.name == "FUSE mount"]
    assert os.fsdecode(b"/no/d\xe9 x ") in dead.detail


@root_only
@pytest.mark.nightly
def test_a_mount_that_never_responds_does_not_block(mount):
    """Its server reads requests and replies only to the first: no signal ends a waiting process."""
    point, server = mount
    opcodes, released = [], threading.Event()

    def serve():
        with suppress(OSError):
            while request := os.read(server, 1 << 20):
                _, opcode, unique = struct.unpack_from("IIQ", request)
                opcodes.append(opcode)
                if opcode == FUSE_INIT:
                    answer = struct.pack("IIII", 7, 31, 0, 0).ljust(64, b"\0")
                    os.write(server, struct.pack("IiQ", 16 + len(answer), 0, unique) + answer)

    def release():
        released.set()
        LIBC.umount2(os.fsencode(point), MNT_FORCE)

    threads = threading.Thread(target=serve), threading.Timer(20, release)
    for thread in threads:
        thread.start()
    try:
        assert not findings()["FUSE mount"]["works"]
        assert len(opcodes) > 1
        assert not released.is_set()
    finally:
        threads[1].cancel()
        release()
        threads[0].join()
        os.close(server)
