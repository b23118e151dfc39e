"""Drawn plans, logs and exports, as users have them, are read correctly or refused."""

import json
from contextlib import suppress

import pytest
from disguises import draw, nodes

from cases import cases
from spillcast.errors import InputError, Refusal
from spillcast.evidence.open import find_evidence
from spillcast.evidence.postgres.plan import read_plan
from spillcast.evidence.postgres.statements import read_statements

DRAWN = 150
REFUSED_MAX = 0.03


def read(path):
    result = find_evidence([path])
    kind = result.only_kind()
    return read_plan(path) if kind == "plans" else read_statements(path)


def right(counts, of):
    temp = counts
    return (
        (temp.reads.count, temp.writes.count) == (of.read, of.written)
        and temp.total_s == pytest.approx((of.read_ms + of.write_ms) / 1e3, rel=1e-4)
        and counts.elapsed_s == pytest.approx(of.elapsed_ms / 1e3, rel=1e-4)
    )


def judged(folder, seeds):
    """The draws that are read incorrectly, and readable ones that are refused."""
    wrong, refused = [], []
    for seed in seeds:
        item = draw(seed)
        path = folder / f"{seed}-{item.name}"
        path.write_bytes(item.content)
        try:
            counts = read(path)
        except (InputError, Refusal) as error:
            refused.append((seed, item.kind, item.how, str(error)[-200:]))
            continue
        fair = right(counts, item.truth)
        if item.kind != "statements":
            fair = fair and counts.processes == pytest.approx(item.truth.processes)
        if not fair:
            wrong.append((seed, item.kind, item.how))
    return wrong, refused


def test_disguised_evidence_is_never_read_incorrectly(tmp_path):
    wrong, refused = judged(tmp_path, range(DRAWN))
    assert not wrong
    assert len(refused) <= REFUSED_MAX * DRAWN, refused


@cases("above", ["", "What of this?\n"])
def test_a_plan_of_a_query_on_pg_stat_statements_is_a_plan(tmp_path, above):
    of = draw(1).truth
    document = {"Query Text": "select queryid, calls, temp_blks_read, temp_blks_written from s"}
    path = tmp_path / "paste"
    path.write_text(above + json.dumps(document | nodes(of), indent=1))
    assert right(read(path), of)


def test_cut_evidence_is_refused_or_never_exceeds_the_whole(tmp_path):
    """A part of a file never has more temp I/O than the whole."""
    for seed in range(40):
        item = draw(seed)
        path = tmp_path / f"{seed}-{item.name}"
        for part in (0.3, 0.6, 0.9):
            path.write_bytes(item.content[: int(part * len(item.content))])
            with suppress(InputError, Refusal):
                assert read(path).operations <= item.truth.read + item.truth.written
