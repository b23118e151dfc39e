"""What ``sweep memory --json`` and a forecast's ``memory`` hold."""

import json

from test_documents import NUMBER, TEXT, WHOLE, array, document, nullable, printed, valid

from harness import spillcast

SWEPT = document(
    {
        "storage": TEXT, "memory_bytes": WHOLE, "measured": {"type": "boolean"},
        "elapsed_s": NUMBER, "interval_s": nullable(array(NUMBER)), "reads": WHOLE,
        "writes": WHOLE, "state": {"enum": ["multi-pass", "one-pass", "spills", "none"]},
        "passes": nullable(WHOLE), "batches": nullable(WHOLE), "spilled_bytes": WHOLE,
        "histograms": nullable({"type": "object"}),
    }
)  # fmt: skip
CELL = document(
    {
        "storage": TEXT, "memory_bytes": nullable(WHOLE), "elapsed_s": NUMBER,
        "interval_s": nullable(array(NUMBER)), "cost": nullable(NUMBER),
    }
)  # fmt: skip
ADVICE = document(
    {
        "within_s": NUMBER, "by": {"enum": ["price", "memory"]}, "sure": {"type": "boolean"},
        "cell": nullable(CELL),
    }
)  # fmt: skip
SWEEP = document(
    {
        "schema": {"const": "spillcast.sweep/1"}, "kind": {"const": "memory"}, "engine": TEXT,
        "workload": TEXT, "confidence": NUMBER, "points": array(SWEPT),
        "turns": array(document({"memory_bytes": WHOLE, "from": TEXT, "to": TEXT})),
        "errors": array(document(
            {"storage": TEXT, "memory_bytes": WHOLE, "forecast_s": NUMBER, "measured_s": NUMBER,
             "error": NUMBER, "covered": {"type": "boolean"}}
        )),
        "median_error": nullable(NUMBER), "advice": nullable(ADVICE),
        "warnings": array(document({"code": TEXT, "message": TEXT})),
    }
)  # fmt: skip


def test_sweep_memory(tmp_path):
    query = "select max(r) from (select row_number() over (order by hash(i)) r from range({}) t(i))"
    (tmp_path / "q.sql").write_text(query.format(800_000))
    sizes = ("--memory", "16M..256M", "--measure", 3, "--check", "--within", "1ms")
    # Steps are told on stderr.
    result = spillcast(
        "sweep", "memory", "--sql", tmp_path / "q.sql", *sizes, "--on", "tmpfs", "--json"
    )
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert valid(SWEEP, said)
    assert said["advice"]["cell"] is None
    assert len(said["points"]) == 5
    assert len(said["errors"]) == sum(not point["measured"] for point in said["points"]) > 0


def test_forecast_tells_of_memory(spilled):
    said = printed("forecast", spilled.path, "--to", "factor:10", "--within", "1h")
    assert valid(ADVICE, said["memory"]["advice"])
    # Nothing is known of its memory.
    assert [cell["memory_bytes"] for cell in said["memory"]["cells"]] == [None, None]
