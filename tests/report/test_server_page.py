"""The page of a server: what to do, what changed and the trend; nothing that may not be told."""

import re
from html import unescape

import pytest

from cases import cases
from harness import json_of, spillcast
from snapshot_files import TEXTS, Server, three_weeks
from spillcast.engines.postgres.rank.history import steps
from spillcast.engines.ranking import RateLimit
from spillcast.errors import OptionInvalid


@pytest.fixture(scope="module")
def looks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server") / "looks"
    three_weeks(folder, mib=20)
    return folder


def page_of(output, *arguments):
    return json_of("report", *arguments, "-o", output), output.read_text()


@pytest.fixture(scope="module")
def page(looks):
    """The page of the folder, and what was printed as it was made."""
    file = looks.parent / "page.html"
    return file, page_of(file, looks)[0]


def test_a_folder_of_snapshots_is_a_page(looks, page, tmp_path):
    file, made = page
    text = file.read_text()
    assert made["sections"][:2] == ["What to do first", "What changed"]
    assert len(made["charts"]) >= 2
    assert all(query in text for query in TEXTS.values())
    printed = spillcast("postgres", looks, "--json").stdout
    (tmp_path / "postgres.json").write_text(printed)
    from_document, _ = page_of(tmp_path / "again.html", tmp_path / "postgres.json")
    assert from_document["sections"] == made["sections"]


def test_a_page_has_the_intervals_that_were_wanted(looks, tmp_path):
    _, text = page_of(tmp_path / "page.html", looks, "--confidence", "0.5")
    assert set(re.findall(r'"confidence": ([\d.]+)', unescape(text))) == {"0.5"}


def test_a_redacted_page_names_neither_statements_nor_hosts(looks, tmp_path):
    made, text = page_of(tmp_path / "page.html", looks, "--redact", "--to", "latency:1ms")
    for secret in ("sales", "orders", "lines", "db1"):
        assert secret not in text
    # What is known of a change names nobody, nor does a setting.
    assert "table blocks per call" in text
    assert '"memory": "work_mem"' in unescape(text)
    assert len(made["charts"]) >= 2


def test_a_redacted_look_has_no_texts(tmp_path):
    server = Server()
    server.look(tmp_path)
    for _ in range(2):
        server.call("1")
        server.look(tmp_path, redact=True)
    assert "select" not in spillcast("postgres", tmp_path, "--json").stdout


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.nightly
def test_the_page_fits_its_window(page, browser, width):
    window = browser.new_page(viewport={"width": width, "height": 800})
    window.goto(f"file://{page[0]}")
    assert window.evaluate("document.documentElement.scrollWidth") <= width


@cases(
    ("levels", "splits"),
    [
        ([1.0] * 9, []),
        ([1.0] * 5 + [2.0] * 4, [(5, False)]),
        ([1.0] * 5 + [2.0] * 4 + [1.0] * 6, [(5, False), (9, False)]),
        ([1.0, 2.0] * 6, []),
        ([0.1 * at for at in range(20)], [(10, True)]),
        ([1.0, 2.0], []),
    ],
)
def test_levels_that_change(levels, splits):
    assert steps(levels) == splits


@cases("text", ["temp", "temp > 10G", "temp > x/h", "disk > 1G/h", "new > -1/d"])
def test_a_rule_of_another_grammar_is_refused(text):
    with pytest.raises(OptionInvalid):
        RateLimit.of(text)


def test_a_rate_is_of_the_latest_looks_that_cover_its_time():
    rule = RateLimit.of("temp > 1G/h")
    gib = float(1 << 30)
    quiet, busy = (600.0, {"temp": 0.0}), (600.0, {"temp": gib / 4})
    assert rule.alert([busy] * 60 + [quiet] * 6).rate == 0
    assert rule.alert([quiet] * 60 + [busy] * 6).rate == pytest.approx(1.5 * gib)
    # Looks far apart tell a mean; looks of less than the time are not extrapolated.
    assert rule.alert([(7200.0, {"temp": 4 * gib})]).rate == pytest.approx(2 * gib)
    assert rule.alert([busy]).rate == pytest.approx(gib / 4)


def test_an_alert_of_a_moment_names_no_rate():
    """What was spilled in 5 s was shown as that of an hour."""
    moment = [(5.0, {"temp": float(2 << 20)})]
    for text, exceeded in (("temp > 1M/h", True), ("temp > 1G/h", False)):
        alert = RateLimit.of(text).alert(moment)
        assert alert.exceeded == exceeded
        _, _, measured = alert.text.partition(f"{text}: ")
        assert "/h" not in measured
        assert "2 MiB" in measured
        assert "5 s" in measured
    hour = RateLimit.of("temp > 1G/h").alert([(3600.0, {"temp": float(2 << 20)})])
    assert hour.text.endswith("2 MiB/h")
