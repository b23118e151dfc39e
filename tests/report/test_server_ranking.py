"""The ranking of a server's statements as it is read."""

from spillcast.engines.ranking import Gain, Ranked, ServerRanking
from spillcast.report.servers import ranking_page


def _text(gains):
    item = Ranked("1", "select 1", 4, 2.0, 1 << 20, (0.1, 0.1), gains, Gain(0.1, (0.05, 0.2)))
    page = ranking_page(ServerRanking("db", 60.0, [item], list(gains), 0.9, elapsed_s=9.0), 5)
    return " ".join(page.text(100).split())


def test_storage_behind_the_page_cache_is_no_fix():
    answer = _text({"catalogue:aws-gp3": Gain(1.36e-6, (-8.0, 0.1), 10.0)})
    assert "1.36 us" not in answer
    assert "10 s on catalogue:aws-gp3 instead of 2 s" in answer


def test_only_bounds_of_a_saving_are_printed_where_only_bounds_are_known():
    """Of 2 s, temp I/O took anything between 4 ms and all: midway is no estimate."""
    gain, no_spill = Gain(0.9, (-0.3, 1.7)), Gain(1.0, (0.0, 2.0))
    item = Ranked("1", "select 1", 4, 2.0, 1 << 20, (0.004, 2.0), {"flash": gain}, no_spill)
    page = ranking_page(ServerRanking("db", 60.0, [item], ["flash"], 0.9, elapsed_s=9.0), 5)
    for text in (page.text(100), page.text(200), page.markdown()):
        assert "-300 ms to 1.70 s" in " ".join(text.split())
        assert "900 ms" not in text
    [header, *rows] = [line.split(",") for line in page.data.csv().splitlines()]
    assert {row[header.index("saved_s")] for row in rows} == {""}


def test_a_saving_below_a_thousandth_is_about_nothing():
    answer = _text({"disk": Gain(1.9e-3, (1e-3, 3e-3)), "flash": Gain(0.08, (0.05, 0.1))})
    assert "1.9 ms (" not in answer
    assert "80 ms (50 ms to 100 ms)" in answer


def test_a_storage_that_takes_longer_is_slower_and_saves_nothing():
    answer = _text({"disk": Gain(-126.0, (-200.0, -60.0)), "flash": Gain(0.08, (0.05, 0.1))})
    assert "saves 2 min 06 s" not in answer
    assert "disk is 2 min 06 s slower (-3 min 20 s to -60 s)" in answer
    assert "flash saves 80 ms" in answer
