"""Texts of each kind in layers of wrapping give the answer of the bare text, or a refusal."""

import html
import json
import random
from dataclasses import replace

import pytest
from disguises import (
    ASCII,
    drawn_table,
    expanded,
    log_lines,
    nodes,
    statement_rows,
    table,
    text_lines,
    truth,
)
from report_disguises import PLAIN

import monitor_reports
import sqlserver_files
from fuzz.figure_shapes import DATABEND, OTHERS
from spillcast.errors import InputError, Refusal
from spillcast.evidence.open import find_evidence, open_evidence
from spillcast.evidence.selection import Selection

SEED, DRAWN = 41507, 260
#: Layers that apply to plans of PostgreSQL alone, and to all kinds.
REFUSED_MAX = {"plans": 0.1, "all": 0.35}
#: Texts that lack the time of the run.
WITHOUT_ELAPSED = ("events", "session-event", "aligned-event", "query_stats", "xplan")


def texts():
    """Lines of each kind of evidence, those of plans first."""
    draws = random.Random(SEED)
    of = truth(draws)
    lines = text_lines(replace(of, processes=1.0))
    shared = text_lines(replace(of, processes=2.0))
    row = statement_rows(of, 7, 17)
    plans = {
        "plan": lines,
        "parallel plan": shared,
        "json": json.dumps([nodes(of)], indent=2).split("\n"),
        "table of psql": table(shared, ASCII, 1),
        "framed table": table(shared, ASCII, 2),
        "markdown": ["| QUERY PLAN |", "| :--- |", *(f"| {line} |" for line in lines)],
        "records": expanded(lines),
    }
    others = {
        "statements": drawn_table(row, ASCII, 1),
        "log": log_lines(of)[2],
        "sqlserver": sqlserver_files.plan(sqlserver_files.SORT.format(pages=7841)),
        "query_stats": sqlserver_files.QUERIES,
        "databend": DATABEND,
        "monitor-more": monitor_reports.text(),
        **{name: text for name, (_, text) in OTHERS.items()},
        **{name: known.text for name, known in PLAIN.items()},
    }
    others = {
        name: text.rstrip("\n").split("\n") if isinstance(text, str) else text
        for name, text in others.items()
    }
    return plans, others


def before(mark):
    """Makes a layer: a prefix before each line, in which ``{at}`` is the line number."""
    return lambda lines: [f"{mark.format(at=at)}{line}" for at, line in enumerate(lines, 10)]


def around(above, below=()):
    """Makes a layer: lines above and below."""
    return lambda lines: [*above, *lines, *below]


def escaped(lines):
    return [html.escape(line, quote=False) for line in lines]


TIME = "2026-11-23T10:00:{at}.100000000Z "
LAYERS = {
    "mail": before("> "),
    "mail without blanks": lambda lines: [f"> {line}".rstrip() for line in lines],
    "reply": lambda lines: ["On Monday somebody wrote:", *before("> ")(lines), "Any ideas?"],
    "fence": around(["```"], ["```"]),
    "fence between words": around(["Here it is:", "", "```text"], ["```", "", "What now?"]),
    "settings": around(["Settings:", "{", '  "memory_limit": "1GB"', "}", "Output:", ""]),
    "jira": around(["{noformat}"], ["{noformat}"]),
    "indent": before("    "),
    "tab": before("\t"),
    "page": lambda lines: ["<p>Output:</p>", "<pre><code>", *escaped(lines), "</code></pre>Thanks"],
    "blocks": lambda lines: [f"<div>{line}</div>" for line in escaped(lines)],
    "entities": escaped,
    "breaks": lambda lines: [f"{line}<br>" for line in escaped(lines)],
    "comment of SQL": before("-- "),
    "comment of Python": before("# "),
    "comment of C": before("// "),
    "block comment": lambda lines: ["/*", *before(" * ")(lines), " */"],
    "patch": before("+"),
    "numbers": before("{at}  "),
    "numbers and colons": before("{at}: "),
    "numbers and tabs": before("{at}\t"),
    "numbers and bars": before("{at} | "),
    "string": lambda lines: [json.dumps("\n".join(lines))],
    "string of Python": lambda lines: [repr("\n".join(lines))],
    "string in lines": lambda lines: [f'plan = """{lines[0]}', *lines[1:], '"""'],
    "list of Python": lambda lines: [repr([f"{line}\n" for line in lines])],
    "message of a task": lambda lines: [f"ok: [db1] => {json.dumps({'msg': lines})}"],
    "result of a task": lambda lines: [
        json.dumps({"rc": 0, "stdout": "\n".join(lines), "stdout_lines": lines, "changed": True})
    ],
    "list of strings": lambda lines: [f"{json.dumps(line)}," for line in lines],
    "document": lambda lines: [json.dumps({"text": "\n".join(lines)})],
    "cell": lambda lines: ('"' + "\n".join(lines).replace('"', '""') + '"').split("\n"),
    "cells": lambda lines: ['"' + line.replace('"', '""') + '"' for line in lines],
    "compose": before("app-1  | "),
    "kubectl": before(TIME),
    "kubectl of a pod": before("[pod/db-0/main] "),
    "container": before(TIME + "stdout F "),
    "syslog": before("Nov 23 10:00:{at} host1 job[42]: "),
    "logger": before("2026-11-23 10:00:{at},123 INFO app.db - "),
    "blank lines": lambda lines: [part for line in lines for part in (line, "")],
    "ends of Windows": lambda lines: [f"{line}\r" for line in lines],
    "hard blanks": lambda lines: [line.replace("  ", "\u00a0 ") for line in lines],
    "remarks": lambda lines: [f"{line}   ← line {at}, 12 % of it" for at, line in enumerate(lines)],
    "colours": lambda lines: [f"\x1b[32m{line}\x1b[0m" for line in lines],
    "session": around(["db=# \\i report.sql"], ["db=#"]),
}


def answer(path, name, lines):
    """The figures that are read, or the message of a refusal."""
    path.write_text("\n".join(lines) + "\n")
    elapsed_s = 900.0 if name in WITHOUT_ELAPSED else None
    try:
        counts = open_evidence(find_evidence([path]), Selection(elapsed_s=elapsed_s))
    except (InputError, Refusal) as error:
        return f"refused: {error}"
    figures = counts.reads.count, counts.writes.count, counts.total_s
    return *figures, counts.elapsed_s, counts.processes, counts.time_bounds


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The answers of the texts without any layer."""
    path, (plans, others) = tmp_path_factory.mktemp("bare") / "paste", texts()
    return {name: answer(path, name, lines) for name, lines in (plans | others).items()}


@pytest.fixture(scope="module")
def drawn(bare, tmp_path_factory):
    """The kind, layers, answer, and bare text's answer of each draw."""
    path, draws = tmp_path_factory.mktemp("layers") / "paste", random.Random(SEED)
    plans, others = texts()
    results = []
    for at in range(DRAWN):
        name = draws.choice(list(others if at % 2 else plans))
        layers = draws.sample(list(LAYERS), draws.choice((2, 3)))
        lines = (plans | others)[name]
        for layer in layers:
            lines = LAYERS[layer](lines)
        kind = "plans" if name in plans else "others"
        results.append((kind, name, layers, answer(path, name, lines), bare[name]))
    return results


def test_bare_texts_are_read(drawn):
    assert [each for each in drawn if isinstance(each[-1], str)] == []


def test_figures_that_are_read_are_those_of_the_bare_text(drawn):
    assert [each for each in drawn if not isinstance(each[3], str) and each[3] != each[4]] == []


def test_few_wrapped_texts_are_refused(drawn):
    for kind, share in REFUSED_MAX.items():
        kinds = [each for each in drawn if kind in ("all", each[0])]
        refused = [each[:4] for each in kinds if isinstance(each[3], str)]
        assert len(refused) <= share * len(kinds), refused


#: Layers that contain the text as it is.
WHOLE = ("string", "string of Python", "list of Python", "message of a task", "settings")


def test_a_text_in_a_single_layer_is_that_text(bare, tmp_path):
    path, (plans, others) = tmp_path / "paste", texts()
    for name, lines in (plans | others).items():
        for layer in WHOLE:
            assert answer(path, name, LAYERS[layer](lines)) == bare[name], name


def test_the_result_of_a_task_hides_no_plan_beside_its_output(tmp_path):
    path, lines = tmp_path / "paste", texts()[0]["plan"]
    bare = answer(path, "plan", lines)
    rows = {"query": "select 1", "query_result": [{"QUERY PLAN": line} for line in lines]}
    messages = {"rc": 0, "stdout": "", "stderr": "\n".join(lines), "cmd": "psql"}
    done = f"ok: [db1] => {json.dumps({'msg': 'done'})}"
    assert answer(path, "plan", [f"ok: [db1] => {json.dumps(rows)}"]) == bare
    assert answer(path, "plan", [json.dumps(messages)]) == bare
    assert answer(path, "plan", [*lines, done]) == answer(path, "plan", [done, *lines]) == bare
    result = json.dumps({"rc": 0, "stdout": "\n".join(lines)})
    assert answer(path, "plan", ["", result]) == bare
    assert str(answer(path, "plan", [result, result])).startswith("refused")


def test_the_output_of_a_task_that_failed_is_read(tmp_path):
    path, lines = tmp_path / "paste", texts()[1]["awr"]
    result = json.dumps({"rc": 1, "stdout": "\n".join(lines), "msg": "non-zero return code"})
    failed = [f"fatal: [db1]: FAILED! => {result}"]
    assert answer(path, "awr", failed) == answer(path, "awr", lines)


def test_a_plan_in_a_raw_string_of_rust(bare, tmp_path):
    path, (plans, others) = tmp_path / "paste", texts()
    plans["mariadb"] = others["mariadb"]
    for name in ("plan", "json", "mariadb"):
        code = around(['    let slow = r#"'], ['"#;', "    assert!(spills(slow));"])
        assert answer(path, name, code(plans[name])) == bare[name], name
        text = "\n".join(plans[name])
        assert answer(path, name, [f'let slow = r#"{text}"#;']) == bare[name]


def test_a_fence_below_other_text_changes_nothing(bare, tmp_path):
    path, (plans, others) = tmp_path / "paste", texts()
    fenced = around(["Here it is:", "", "```text"], ["```"])
    for name, lines in (plans | others).items():
        assert answer(path, name, fenced(lines)) == bare[name], name
