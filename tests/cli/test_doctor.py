"""What is said to work here does, and each refusal comes with a command."""

import json
from dataclasses import fields

from harness import bpf_is_built, ordinary_user, refuse_tracing, spillcast
from spillcast.lab.doctor import Diagnosis, Finding


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
        assert "--security-opt seccomp" in found[name]["mend"]


def test_an_ordinary_user_is_told_what_wants_root():
    bpf_is_built()
    found = findings(ordinary_user())
    assert not found["bpf"]["works"]
    assert found["bpf"]["mend"].startswith("sudo ")


def test_all_that_does_not_work_is_listed_with_its_mend():
    text = spillcast("doctor", under=refuse_tracing()).stdout
    for name, one in findings(refuse_tracing()).items():
        assert name in text
        assert one["works"] or one["mend"] is None or one["mend"] in text
