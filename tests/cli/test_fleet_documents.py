"""What ingest and fleet print with --json holds the keys that others rely on."""

from test_documents import TEXT, WHOLE, array, document, documented, printed, valid

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
