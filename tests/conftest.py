"""Fixtures for all tests: places for temp files and base tables, and a recording."""

import atexit
import gc
import os
import signal
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

import forked
import held_tracepoints
import leftovers
from harness import EXACT, account_of, available, completed, make_places, spill_in
from leftovers import SESSION
from measured_once import measure_once
from spillcast.recording.record import Recorder

# Collecting tests makes many objects and no garbage.
gc.set_threshold(20_000)

# Workers share what is measured once, but each has its own calibrations. Both are
# kept apart from the user's own.
STATE = tempfile.TemporaryDirectory(prefix=f"spillcast-state-{SESSION}-")
atexit.register(STATE.cleanup)
os.environ["XDG_CACHE_HOME"] = str(leftovers.CACHE)
os.environ["XDG_STATE_HOME"] = STATE.name
measure_once()
#: The width in workers of pytest-xdist, also set without them, when output had the terminal's.
os.environ["COLUMNS"] = "80"

# Only a user's first recording names its capture source. This one comes before those of the tests,
# so that their output depends neither on the build of the core nor on the kernel.
recorder = Recorder(None)
recorder.prepare()
recorder.new_notices()
del recorder
for folder in (Path(STATE.name), Path(STATE.name, "spillcast")):
    folder.chmod(0o777)

# The time of an example depends on the load of the machine.
settings.register_profile(
    "spillcast", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("spillcast")

#: The longest files begin first, so that no worker still runs one while the others idle.
LONGEST = (
    "tests/engines/postgres/live/", "tests/engines/postgres/move/", "tests/engines/mysql/",
    "tests/engines/clickhouse/", "tests/test_guides.py", "tests/fuzz/",
    "tests/recording/test_blind_spots.py", "tests/recorder/test_recorder.py",
    "tests/cli/test_storage.py", "tests/recording/test_writer.py",
    "tests/engines/postgres/test_postgres_check.py", "tests/recording/test_killed.py",
    "tests/storage/test_rehearse_command.py", "tests/storage/test_probe.py",
    "tests/recording/test_counts.py", "tests/recording/test_recognition.py",
    "tests/recording/test_temp_files.py", "tests/recording/test_unrecognised.py",
    "tests/report/test_server_page.py", "tests/test_tidy.py",
    "tests/forecast/sum/test_sampling.py", "tests/storage/test_bounded.py",
    "tests/engines/test_paper_engine.py", "tests/report/test_report_secrets.py",
    "tests/report/test_report_pages.py", "tests/lab/test_verify.py",
    "tests/lab/test_memory_sweep.py",
)  # fmt: skip
#: Folders whose tests share a server that is slow to start, and which one worker runs.
SERVED = (
    "tests/engines/clickhouse", "tests/engines/mysql", "tests/engines/postgres/move",
)  # fmt: skip

#: The tests in which a worker of pytest-xdist ended; the rest of their files was not run.
CRASHED = []


def pytest_configure(config):
    """Registers hooks of other files; ``make test`` times no runs of the lab."""
    config.pluginmanager.register(leftovers)
    if config.option.markexpr == "not nightly":
        forked.hold_little_memory()
        if leftovers.FIRST is not None and config.getoption("numprocesses", None):
            held_tracepoints.hold()


def pytest_collection_modifyitems(items):
    """Sorts files of tests, the longest first."""

    def place(item):
        name = item.nodeid
        return next((n for n, path in enumerate(LONGEST) if name.startswith(path)), len(LONGEST))

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Workers get single files of tests, or folders whose tests share a server."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return next((folder for folder in SERVED if file.startswith(f"{folder}/")), file)

    return Scheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem):
    """Called where a worker ended in the middle of a test."""
    CRASHED.append(crashitem)


def pytest_sessionfinish(session):
    """Fails the session after a crash, as tests that were not run are not rerun either."""
    if CRASHED:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


@pytest.fixture(autouse=True)
def source_is_to_be_had(request):
    """Skips a test of a capture source that cannot be used here, and names the source."""
    callspec = getattr(request.node, "callspec", None)
    if callspec is not None and callspec.params.get("capture") == "bpf":
        available("bpf")


@pytest.fixture
def signals_by_default():
    """Restores the default action of signals that end a run, also under nohup or in background."""
    usual = {signal.SIGINT: signal.default_int_handler}
    usual |= dict.fromkeys((signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def places(tmp_path):
    """The directories of a single test."""
    return make_places(tmp_path)


@pytest.fixture
def open_places():
    """Directories that any user may use."""
    with tempfile.TemporaryDirectory(prefix=f"spillcast-test-{SESSION}-") as name:
        Path(name).chmod(0o777)
        made = make_places(Path(name))
        made.temp.chmod(0o777)
        yield made


@pytest.fixture(scope="session")
def spilled(tmp_path_factory):
    """A recording of the spill program with two threads; tests must not change it."""
    places = make_places(tmp_path_factory.mktemp("spilled"))
    output = places.root / "run.spill"
    command = spill_in(places, "--threads", 2)
    options = ("--capture", EXACT, "-o", output)
    result = completed("record", *options, "--", *command, env=places.env)
    return SimpleNamespace(path=output, account=account_of(result.stdout), places=places)
