"""What ingest and fleet print with --json holds the keys that others rely on."""

from test_documents import NUMBER, TEXT, WHOLE, array, document, nullable, printed, valid

INGESTED = document(
    {
        "schema": {"const": "spillcast.ingest/1"}, "dataset": TEXT, "files": WHOLE, "bytes": WHOLE,
        "seen_before": WHOLE, "damaged_lines": WHOLE,
        "set_aside": array(document({"file": TEXT, "what": TEXT})),
        "unread": array(document({"file": TEXT, "what": TEXT})),
        "damaged": array(document({"file": TEXT, "line": WHOLE, "what": TEXT})),
    }
)  # fmt: skip
BOUNDS = {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}
FLEET = document(
    {
        "schema": {"const": "spillcast.fleet/1"}, "dataset": TEXT, "target": TEXT, "boost": TEXT,
        "confidence": NUMBER, "elapsed_s": NUMBER, "temp_s": NUMBER, "saved_s": NUMBER,
        "saved_interval_s": BOUNDS, "most": NUMBER, "statements_for_most": WHOLE,
        "cost": nullable(NUMBER), "cost_per_saved_hour": nullable(NUMBER), "sources": WHOLE,
        "set_aside": WHOLE, "warnings": array(TEXT),
        "statements": array(document(
            dict.fromkeys(("database", "sql", "evidence"), TEXT)
            | dict.fromkeys(("elapsed_s", "temp_s", "share", "cumulative_share"), NUMBER)
            | dict.fromkeys(("forecast_s", "saved_s", "p50_us", "p95_us"), nullable(NUMBER))
            | dict.fromkeys(("interval_s", "saved_interval_s"), nullable(BOUNDS))
            | {"sources": WHOLE, "refused": nullable(TEXT)}
        )),
        "databases": array(document(
            dict.fromkeys(("elapsed_s", "temp_s", "saved_s", "share"), NUMBER)
            | {"database": TEXT, "statements": WHOLE, "saved_interval_s": BOUNDS}
        )),
        "days": array(document({"day": TEXT, "temp_s": NUMBER, "saved_s": NUMBER})),
    }
)  # fmt: skip


def test_a_fleet(spilled, tmp_path):
    said = printed("ingest", spilled.path, "-o", tmp_path / "fleet")
    assert valid(INGESTED, said)
    assert said["files"] == 1
    said = printed("fleet", tmp_path / "fleet", "--to", "factor:10")
    assert valid(FLEET, said)
    assert len(said["statements"]) == 1
