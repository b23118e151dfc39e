"""Documents of --json have the keys that other programs rely on, and nothing else is on stdout."""

import json
import shlex

import pytest
from jsonschema import Draft202012Validator

from cases import cases
from emulator import skip_without_fuse
from harness import completed, json_of, spill_in, spillcast
from oracle_files import ROOT

SCHEMAS = ROOT / "docs" / "schemas"
NUMBER, TEXT = {"type": "number"}, {"type": "string"}


def document(properties):
    """A JSON schema for an object with at least these keys."""
    return {"type": "object", "required": list(properties), "properties": properties}


def array(items):
    return {"type": "array", "items": items}


def nullable(of):
    return {"anyOf": [of, {"type": "null"}]}


def documented(name):
    """The published JSON schema of a document, in which every printed key is required."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    for kind in schema["$defs"].values():
        if "properties" in kind:
            # Only measured storages have this key.
            kind["required"] = [key for key in kind["properties"] if key != "provenance"]
    return schema


WHOLE = {"type": "integer"}
FORECAST, STORAGE, CACHE = map(documented, ("forecast", "storage", "cache"))
ABILITY = document(
    dict.fromkeys(
        (
            "servers", "operations_per_s", "bandwidth_bytes_per_s",
            "error_median", "error_max",
        ),
        nullable(NUMBER),
    )
)  # fmt: skip
PEAK = document(dict.fromkeys(("share", "low_s", "high_s", "mode_s"), NUMBER))
SHAPE = document(
    {
        "op": TEXT, "size_class_bytes": {"type": "integer"}, "depth": {"type": "integer"},
        "pattern": TEXT, "access": TEXT,
        "peaks": array(PEAK), "words": TEXT, "cause": nullable(TEXT),
    }
)  # fmt: skip
SHOWN = STORAGE | document(
    {"model": document({"read": ABILITY, "write": ABILITY, "peaks": array(SHAPE)})}
)
COMPARED = document(
    {
        "p50_s": NUMBER, "mean_s": NUMBER, "p99_s": NUMBER, "speedup": nullable(NUMBER),
        "measured": {"type": "boolean"}, "extrapolated": {"type": "boolean"}, "error": NUMBER,
    }
)  # fmt: skip
COMPARISON = document(
    {
        "schema": {"const": "spillcast.comparison/1"},
        "storages": array(document({"name": TEXT, "source": TEXT})),
        "rows": array(
            document(
                {
                    "op": TEXT, "size_class_bytes": {"type": "integer"}, "pattern": TEXT,
                    "storages": array(nullable(COMPARED)),
                }
            )
        ),
        "verdicts": array(
            document(
                {
                    "storage": TEXT, "op": TEXT, "pattern": TEXT, "speedup": NUMBER,
                    "speedup_min": NUMBER, "speedup_max": NUMBER, "error": NUMBER,
                }
            )
        ),
    }
)  # fmt: skip

GRID_FACTS = document(
    {
        "filesystem": TEXT, "network": nullable({"type": "boolean"}), "file_bytes": NUMBER,
        "free_bytes": nullable({"type": "integer"}),
        "buffered_engine": TEXT, "direct_engine": nullable(TEXT), "cells": {"type": "integer"},
        "cells_without_time": {"type": "integer"}, "cells_without_room": {"type": "integer"},
        "sustained": nullable(document({
            "bytes": {"type": "integer"}, "reached": {"type": "boolean"},
            "burst_bytes_per_s": NUMBER, "sustained_bytes_per_s": nullable(NUMBER),
            "dirty_limit_bytes": nullable({"type": "integer"}),
        })),
    }
)  # fmt: skip
IOLOG = document(
    {
        "schema": {"const": "spillcast.iolog/1"}, "path": TEXT, "reads": {"type": "integer"},
        "writes": {"type": "integer"}, "read_bytes": {"type": "integer"},
        "write_bytes": {"type": "integer"}, "files": {"type": "object"},
        "laid_before": array(TEXT),
    }
)  # fmt: skip


EMULATION = document(
    {
        "schema": {"const": "spillcast.emulation/1"},
        "name": TEXT, "mountpoint": TEXT, "backing": TEXT, "page_cache": {"type": "boolean"},
        "elapsed_s": NUMBER, "servers": nullable({"type": "integer"}),
        "limits": array(document({})),
        "floor": array(document({
            "op": {"enum": ["read", "write"]}, "size_bytes": {"type": "integer"},
            "added_ns": {"type": "integer"},
        })),
        "operations": array(document({
            "op": {"enum": ["read", "write"]}, "count": {"type": "integer"},
            "bytes": {"type": "integer"}, "sequential": {"type": "integer"},
            "late": {"type": "integer"}, "total_ns": {"type": "integer"},
            "latency_ns": array({"type": "integer"}), "latency_count": array({"type": "integer"}),
        })),
        "warnings": array(document({"code": TEXT, "message": TEXT})),
        "command": nullable(array(TEXT)), "exit_status": nullable({"type": "integer"}),
    }
)  # fmt: skip


def printed(*arguments, status=0, statuses=()):
    """The single document on stdout."""
    result = spillcast(*arguments, "--json")
    assert result.returncode in (statuses or {status}), result.stderr
    return json.loads(result.stdout)


def valid(schema, instance):
    Draft202012Validator(schema).validate(instance)
    return True


@cases("to", ["factor:10", "latency:150us", "{spilled}", "{directory}"])
def test_forecast(spilled, tmp_path, to):
    to = to.format(spilled=spilled.path, directory=tmp_path)
    # A probe on a busy machine may be too uncertain for a forecast.
    statuses = {0, 3} if to == str(tmp_path) else {0}
    reply = printed("forecast", spilled.path, "--to", to, statuses=statuses)
    assert valid(FORECAST, reply)
    if reply["refused"]:
        return
    assert sum(t["forecast_s"] for t in reply["terms"]) == pytest.approx(reply["forecast_s"])
    assert reply["confidence"] == 0.9
    assert list(tmp_path.iterdir()) == []


def test_forecast_refused(spilled, tmp_path):
    reads_only = {
        "op": "read", "size_class_bytes": 8192, "depth": 1, "count": 9, "bytes": 73728,
        "total_ns": 900, "latency_ns": [100], "latency_count": [9],
        "block_count": [9], "block_mean_ns": [100],
    }  # fmt: skip
    path = tmp_path / "storage.json"
    path.write_text(
        json.dumps(
            {
                "schema": "spillcast.storage/1", "name": "reads", "source": "probe",
                "groups": [reads_only], "facts": {},
            }
        )
    )  # fmt: skip
    answer = printed("forecast", spilled.path, "--to", path, status=3)
    assert valid(FORECAST, answer)
    assert "no figures for writes" in answer["refused"]


def test_forecast_of_several_targets(spilled):
    to = ("--to", "factor:10", "--to", "latency:150us")
    answer = printed("forecast", spilled.path, *to, "--confidence", "0.8")
    assert answer["schema"] == "spillcast.forecast/1"
    assert [valid(FORECAST, item) for item in answer["targets"]] == [True, True]
    assert [item["target"] for item in answer["targets"]] == ["factor:10", "latency:150us"]
    assert {item["confidence"] for item in answer["targets"]} == {0.8}
    assert [item["cost"] for item in answer["targets"]] == [None, None]


def test_forecast_with_prices(spilled):
    to = ("--to", "factor:10", "--to", "factor:1", "--cost", "factor:10=5")
    answer = printed("forecast", spilled.path, *to)
    assert [item["cost"] for item in answer["targets"]] == [5, None]
    assert [item["best_value"] for item in answer["targets"]] == [True, False]


def test_probe(spilled, tmp_path):
    assert valid(STORAGE, printed("probe", tmp_path, "--like", spilled.path))


def test_probe_with_a_grid(tmp_path):
    answer = printed("probe", tmp_path, "--grid", "--budget", "2s,32M")
    assert valid(STORAGE, answer)
    assert valid(GRID_FACTS, answer["facts"])
    assert answer["source"] == "grid"


def test_an_exported_log(spilled, tmp_path):
    answer = printed("probe", "--like", spilled.path, "--iolog", tmp_path / "spill.log")
    assert valid(IOLOG, answer)


def test_storage_show(spilled):
    answer = printed("storage", "show", spilled.path)
    assert valid(SHOWN, answer)
    assert len(answer["model"]["peaks"]) == len(answer["groups"])
    assert valid(SHOWN, printed("storage", "show", "catalogue:aws-gp3"))


def test_storage_compare(spilled):
    others = ("catalogue:aws-gp3", "catalogue:linux-hdd")
    answer = printed("storage", "compare", spilled.path, *others)
    assert valid(COMPARISON, answer)
    assert [storage["name"] for storage in answer["storages"]][1:] == list(others)
    assert all(len(row["storages"]) == 3 for row in answer["rows"])


def test_emulate(tmp_path):
    skip_without_fuse()
    # Options of emulate precede the command, and so does --json.
    result = completed("emulate", tmp_path, "--json", "--read", "1ms", "--", "true")
    assert valid(EMULATION, json.loads(result.stdout))
    assert list(tmp_path.iterdir()) == []


def test_record(places):
    command = spill_in(places)
    # The command's output goes elsewhere, so that stdout has only the document.
    silent = ("sh", "-c", f"exec {shlex.join(command)} >/dev/null")
    output = places.root / "run.spill"
    result = completed("record", "--json", "-o", output, "--", *silent, env=places.env)
    assert result.stderr == ""
    meta = json.loads(result.stdout)
    assert meta.pop("path") == str(output)
    assert meta == json.loads((output / "meta.json").read_text())


def test_text_output_goes_to_stdout_and_nothing_to_stderr(spilled, tmp_path):
    for arguments in (
        ("forecast", spilled.path, "--to", "factor:10"),
        ("forecast", spilled.path, "--to", "factor:10", "--to", "factor:2"),
        ("probe", tmp_path, "--like", spilled.path),
    ):
        result = completed(*arguments)
        assert result.stdout
        assert result.stderr == ""
        assert "\x1b" not in result.stdout


CATALOGUE_ENTRY = document(
    {
        "name": TEXT, "what": TEXT, "description": TEXT, "source": TEXT, "spread": NUMBER,
        "assumed": array(TEXT), "read_8k_s": NUMBER, "write_256k_s": NUMBER,
        "reads_per_s": NUMBER, "write_bytes_per_s": NUMBER,
        "parameters": array(document(
            {"key": TEXT, "unit": TEXT, "default": NUMBER, "min": NUMBER, "max": NUMBER}
        )),
    }
)  # fmt: skip
CATALOGUE = document(
    {"schema": {"const": "spillcast.catalogue/1"}, "storages": array(CATALOGUE_ENTRY)}
)


def test_cache(spilled):
    rates = ("--flash", "9G/s", "--disk", "1G/s")
    answer = printed("cache", spilled.path, "--size", "1M", *rates)
    assert valid(CACHE, answer)
    assert answer["curve"]["miss_ratio"] == sorted(answer["curve"]["miss_ratio"], reverse=True)


def test_storage_list():
    assert valid(CATALOGUE, printed("storage", "list"))
    assert len(printed("storage", "list", "aws-gp*")["storages"]) == 2


STEP = {"oneOf": [
    document({"sql": TEXT, "done": {"type": "boolean"}, "why": TEXT}),
    document({"command": TEXT, "done": {"type": "boolean"}, "why": TEXT}),
]}  # fmt: skip
MOVE = document(
    {
        "schema": {"const": "spillcast.move/1"}, "engine": TEXT, "to": TEXT, "for": TEXT,
        "tablespace": nullable(TEXT), "applied": {"const": False}, "reverted": {"const": False},
        "steps": array(STEP), "verified": {"type": "null"}, "revert": array(STEP),
        "warnings": array(TEXT), "left": array(TEXT),
    }
)  # fmt: skip


@cases("engine", ["postgres", "oracle", "duckdb", "tmpfs"])
def test_move(engine):
    size = () if engine == "postgres" else ("--size", "64M")
    answer = printed("move", engine, "--to", "/mnt/nvme/temp", *size)
    assert valid(MOVE, answer)
    assert answer["engine"] == engine
    assert not any(step["done"] for step in answer["steps"])


INGESTED = document(
    {
        "schema": {"const": "spillcast.ingest/1"}, "dataset": TEXT, "files": WHOLE, "bytes": WHOLE,
        "seen_before": WHOLE, "damaged_lines": WHOLE,
        "set_aside": array(document({"file": TEXT, "what": TEXT})),
        "unread": array(document({"file": TEXT, "what": TEXT})),
        "damaged": array(document({"file": TEXT, "line": WHOLE, "what": TEXT})),
    }
)  # fmt: skip

FLEET = documented("fleet")


def test_a_fleet(spilled, tmp_path):
    answer = printed("ingest", spilled.path, "-o", tmp_path / "fleet")
    assert valid(INGESTED, answer)
    assert answer["files"] == 1
    answer = printed("fleet", tmp_path / "fleet", "--to", "factor:10")
    assert valid(FLEET, answer)
    assert len(answer["statements"]) == 1


SWEEP = documented("sweep-memory")


@pytest.mark.nightly
def test_sweep_memory(tmp_path):
    query = "select max(r) from (select row_number() over (order by hash(i)) r from range({}) t(i))"
    (tmp_path / "q.sql").write_text(query.format(800_000))
    sizes = ("--memory", "16M..64M", "--measure", 2, "--check", "--within", "1ms")
    # Progress is printed to stderr.
    document = json_of("sweep", "memory", "--sql", tmp_path / "q.sql", *sizes, "--on", "tmpfs")
    assert valid(SWEEP, document)
    assert document["advice"]["cell"] is None
    assert len(document["points"]) == 3
    assert len(document["errors"]) == sum(not point["measured"] for point in document["points"]) > 0


def test_a_forecast_has_advice_on_memory(spilled):
    answer = printed("forecast", spilled.path, "--to", "factor:10", "--within", "1h")
    assert valid(FORECAST, answer)
    assert answer["memory"]["advice"]["within_s"] == 3600
    # The recorded program's memory is unknown.
    assert [cell["memory_bytes"] for cell in answer["memory"]["cells"]] == [None, None]
    # Without a target, the advice is about today's storage.
    alone = printed("forecast", spilled.path, "--within", "1h")
    assert alone["memory"]["advice"]["cell"]["storage"] == "today"
