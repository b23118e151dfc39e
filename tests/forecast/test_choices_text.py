"""The table of choices: what is common is said once, what is special beside its target."""

import pytest

from spillcast.forecast import Forecast, Warned
from spillcast.forecast.choices import choices
from spillcast.report.forecast import forecast_page

BUSY = Warned("run-queue", "a busy machine")
WISH = Warned("not-measured", "nothing was measured")


def forecast(target, seconds, *warnings, **more):
    interval = None if seconds is None else (seconds - 1, seconds + 1)
    return Forecast(target, 100.0, seconds, interval, 0.9, 20.0, [], warnings=warnings, **more)


@pytest.fixture(scope="module")
def text():
    found = [
        forecast("wish", 36.0, BUSY, WISH),
        forecast("disk", 150.0, BUSY),
        forecast("tmpfs", None, refused="it would swap"),
        forecast("nvme", 28.0, BUSY, advice=["mount it"]),
    ]
    return forecast_page(choices("abcd", found, {"b": 10, "d": 20})).text(120).splitlines()


def row(text, target):
    return next(line for line in text if line.strip().startswith(target)).split()


def test_the_fastest_stands_first_with_its_share_of_what_storage_can_save(text):
    targets = [line.split()[0] for line in text[4:8]]
    assert targets == ["nvme", "wish", "disk", "tmpfs"]
    best = [
        "nvme",
        *["28", "s", "27", "s", "to", "29", "s"],
        "3.57x",
        "90",
        "%",
        "20",
        "best",
        "value",
    ]
    assert row(text, "nvme") == best


def test_what_weakens_all_is_said_once_below(text):
    assert "  warning: a busy machine" in text
    assert not any("run-queue" in line for line in text)
    assert row(text, "wish")[-1] == "not-measured"


def test_slower_and_refused_targets_are_marked(text):
    assert row(text, "disk")[-3:] == ["-", "10", "slower"]
    assert "  tmpfs: it would swap" in text
    assert "  nvme: mount it" in text
