"""Reports as users paste them: correct by known figures, or refused, rarely without need."""

import random
import re
from itertools import permutations, product

import pytest
from report_disguises import ALIGNED, KEEPING, PLAIN, barred, cut, encoded, flowed, narrow, trimmed

from cases import cases
from spillcast.errors import EvidenceDamaged, EvidenceMixed, InputError, Refusal
from spillcast.evidence.open import read_figures
from spillcast.evidence.oracle.report_tables import bar_tables
from spillcast.evidence.recognise import recognise
from spillcast.evidence.selection import Selection

SEED, DRAWS = 20241014, 100


def outcome(path, truth, item=None):
    """``right``, ``refused``, or what is incorrect."""
    elapsed_s = truth.elapsed_s if truth.asks_elapsed else None
    try:
        result = read_figures([path], Selection(elapsed_s=elapsed_s, item=item))
    except (InputError, Refusal) as error:
        return f"refused: {error}"
    temp = result
    wrong = []
    if abs(result.elapsed_s / truth.elapsed_s - 1) > 0.025:
        wrong.append(f"elapsed {result.elapsed_s}")
    counts, true = (temp.reads.count, temp.writes.count), (truth.reads, truth.writes)
    # Times omitted from a list of top events have bounds.
    left_out = temp.time_bounds is not None and 0 in counts
    near = [
        abs(n / m - 1) <= 0.01 or (left_out and not n) for n, m in zip(counts, true, strict=True)
    ]
    if not all(near):
        wrong.append(f"{temp.reads.count} and {temp.writes.count} operations")
    least_s, most_s = temp.total_s * 0.99, temp.total_s * 1.01
    if temp.time_bounds is not None:
        least_s, most_s = temp.time_bounds.lower, temp.time_bounds.upper * 1.01
    if not least_s <= truth.temp_s <= most_s:
        wrong.append(f"{temp.total_s} s of temp I/O")
    return ", ".join(wrong) or "right"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Disguises of every report, and the outcome of each."""
    rng, folder = random.Random(SEED), tmp_path_factory.mktemp("disguised")
    outcomes = []
    for at in range(DRAWS):
        name = rng.choice(list(PLAIN))
        ways = rng.sample(KEEPING, rng.randint(1, 2))
        if name in ALIGNED:
            # Columns are located by their headings, which is impossible without blanks.
            ways = [way for way in ways if way is not trimmed]
        text = PLAIN[name].text
        for way in ways:
            text = way(text, rng)
        path = folder / f"{at}.txt"
        path.write_bytes(encoded(text, rng))
        words = f"{at} {name} {[way.__name__ for way in ways]}"
        outcomes.append((words, outcome(path, PLAIN[name])))
    return outcomes


def test_plain_reports_give_their_known_figures(tmp_path):
    for name, truth in PLAIN.items():
        path = tmp_path / f"{name}.txt"
        path.write_text(truth.text)
        assert outcome(path, truth) == "right", name
        # Cells are narrow without blanks, and bars are adjacent.
        text = truth.text if name in ALIGNED else trimmed(truth.text, None)
        path.write_text(barred(text, None))
        assert outcome(path, truth) == "right", name


def test_rows_that_a_page_wraps_are_complete(tmp_path):
    rng, path = random.Random(SEED), tmp_path / "plan.txt"
    for _ in range(20):
        path.write_text(flowed(PLAIN["xplan"].text, rng))
        assert outcome(path, PLAIN["xplan"]) == "right", path.read_text()


def test_rows_wrapped_by_sqlplus_or_with_remarks_are_complete(tmp_path):
    """SQL*Plus also wraps rules, and puts a blank line below each wrapped row."""
    path, plan = tmp_path / "plan.txt", PLAIN["xplan"]
    texts = [re.sub(r"^(\|\*? +[24] \|.*)$", r"\1  <- big", plan.text, flags=re.MULTILINE)]
    for width in (42, 44, 53, 66, 80, 84):
        lines = [re.findall(f".{{1,{width}}}", line) or [""] for line in plan.text.splitlines()]
        texts.append("\n".join("\n".join(line) + "\n" * (len(line) > 1) for line in lines))
    for text in texts:
        path.write_text(text)
        assert outcome(path, plan) == "right", text


def test_reports_in_pages_of_sqlplus_are_complete(tmp_path):
    """SQL*Plus repeats the heading of the only column and its underline on each page."""
    for name, column in (("xplan", "PLAN_TABLE_OUTPUT"), ("awr", "OUTPUT"), ("rac", "OUTPUT")):
        lines, path = PLAIN[name].text.splitlines(), tmp_path / name
        for size, rule in product(range(3, 12), ("", "-" * 80 + "\n")):
            pages = ["\n".join(lines[at : at + size]) for at in range(0, len(lines), size)]
            path.write_text("".join(f"\n{column}\n{rule}{page}\n" for page in pages))
            assert outcome(path, PLAIN[name]) == "right", path.read_text()


def test_a_row_that_lost_its_last_bar_is_refused():
    """A bar within its text gives it the number of bars of a complete row."""
    rule, heading = "-" * 31, "| Id  | Name | Reads | Writes |"
    with pytest.raises(EvidenceDamaged):
        list(bar_tables([rule, heading, rule, "|   1 | a|b  |   812 |     40", rule]))


def test_no_disguise_gives_a_wrong_answer(drawn):
    assert [
        each for each in drawn if each[1] != "right" and not each[1].startswith("refused")
    ] == []


def test_readable_reports_are_read(drawn):
    refused = [each for each in drawn if each[1].startswith("refused")]
    assert len(refused) <= 0.03 * len(drawn), refused


def test_cut_reports_are_correct_or_refused(tmp_path):
    rng, path = random.Random(SEED), tmp_path / "cut.txt"
    for at in range(DRAWS):
        name = rng.choice([name for name in PLAIN if name != "session-event"])
        path.write_text(rng.choice([cut, narrow])(PLAIN[name].text, rng))
        result = outcome(path, PLAIN[name])
        assert result == "right" or result.startswith("refused"), (at, name, result)


def test_two_reports_in_one_text_are_never_mixed(tmp_path):
    path = tmp_path / "two.txt"
    for name in ("tkprof", "monitor", "xplan"):
        truth = PLAIN[name]
        path.write_text(f"before:\n{truth.text}\nafter:\n{truth.text}")
        assert "2 runs" in outcome(path, truth), name
        for item in (1, 2):
            assert outcome(path, truth, item) == "right", (name, item)


@cases("name", ["awr", "awr-html", "statspack"])
def test_reports_of_two_intervals_are_not_mixed(tmp_path, name):
    """All figures of the second are smaller, so that none of the two contradict each other."""
    path, text = tmp_path / "two", PLAIN[name].text
    later = text
    for now, then in ((" 100 14-Oct", " 101 14-Oct"), ("30.00 (", "20.00 ("), ("46,450", "6,450")):
        later = later.replace(now, then)
    path.write_text(f"{text}\n{later}")
    assert "several intervals" in outcome(path, PLAIN[name])
    path.write_text(f"{text}\n{text}")
    assert outcome(path, PLAIN[name]) == "right"


#: Evidence of other engines.
OTHERS = {
    "rows": "queryid,calls,total_exec_time,temp_blks_read,temp_blks_written\n7,4,9900.5,500,600\n",
    "json": '[{"Plan": {"Node Type": "Sort", "Temp Written Blocks": 5}, "Execution Time": 9.5}]\n',
    "mariadb": '{\n  "query_block": {"r_total_time_ms": 9, "filesort": {"r_sort_passes": 3}}\n}\n',
    "sqlserver": '<?xml version="1.0"?><ShowPlanXML Build="16.0"><a/></ShowPlanXML>\n',
    "duckdb": '{\n"operator_timing": 0.5\n}\n',
    "trace": """\
EXEC #7:c=9,e=12,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=1,tim=1000
WAIT #7: nam='direct path read temp' ela= 9 file number=201 first dba=5 block cnt=31 tim=1020
FETCH #7:c=20,e=30,p=31,cr=0,cu=0,mis=0,r=1,dep=0,og=1,plh=1,tim=1050
""",
    "postgres": """\
Sort  (cost=1.00..2.00 rows=9 width=8) (actual time=1.0..900.0 rows=9 loops=1)
  Buffers: shared hit=9, temp read=500 written=500
Execution Time: 950.0 ms
""",
}
#: Evidence of a single run in several forms, or of several runs of one kind.
ALIKE = [{"awr", "statspack"}, {"json", "postgres"}]


def test_evidence_of_two_sources_is_refused_in_any_order(tmp_path):
    names = ("awr", "statspack", "monitor", "tkprof", "xplan")
    texts = {name: PLAIN[name].text for name in names} | OTHERS
    for text in texts.values():
        (path := tmp_path / "text").write_text(text)
        assert recognise(path) is not None
    quoting = OTHERS["rows"].replace("written", "written,query").replace(",600", ',600,"{}"')
    for query in ('select\n  ""Node Type""\nfrom t', """insert values ('{""query_block"": 1}')"""):
        path.write_text(quoting.format(query))
        assert recognise(path).name == "statements"
    for names in permutations(texts, 2):
        if set(names) not in ALIKE:
            path.write_text("\n".join(texts[name] for name in names))
            with pytest.raises(EvidenceMixed):
                recognise(path)
    path.write_text("\n".join([texts["awr"], " \n" * 900_000, texts["mariadb"]]))
    with pytest.raises(EvidenceMixed):
        recognise(path)


def test_a_predicate_that_begins_with_bars_is_not_a_row(tmp_path):
    """The rule below its heading is not that of a table, whose rows a page may wrap."""
    heading = "Predicate Information (identified by operation id):\n" + "-" * 51
    predicate = "   2 - access(A||'x'||B=:1 AND\n              ||'z')"
    plan = f"{PLAIN['xplan'].text}\n{heading}\n{predicate}\n\n"
    (path := tmp_path / "plans.txt").write_text(
        plan + plan.replace("0kxkzz5bzz2dd", "7bzz2ddzzzzzz")
    )
    assert outcome(path, PLAIN["xplan"], item=2) == "right"
