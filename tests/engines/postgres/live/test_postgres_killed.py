"""However the recorder of a server's query is killed, the query returns the same rows."""

import subprocess

import pytest

from harness import available, spillcast_command
from kills import check_no_crash, check_nothing_left, check_recording, end, moments

QUERY = "select count(*), sum(length(f)), min(id), max(id) from t x join t y using (id, f)"


pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def expected(newest):
    """The rows without a recorder."""
    with newest.client() as client:
        client.run(QUERY)
        return client.result()


# Each source that attaches, and each way to select processes: they are independent.
@pytest.mark.parametrize(("capture", "how"), [("bpf", "backend"), ("perf", "pid")])
def test_a_query_survives_its_recorder(newest, expected, tmp_path, capture, how):
    for number, (death, after_s) in enumerate(moments(f"{available(capture)} {how}")):
        output = tmp_path / f"{number}.spill"
        with newest.client() as client:
            whose = {
                "backend": ("--postgres", newest.dsn, "--backend", client.pid),
                "pid": ("--pid", newest.server.pid),
            }[how]
            words = ("record", *whose, "--capture", capture, "-o", output)
            recorder = subprocess.Popen(
                spillcast_command(*words),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            client.run(QUERY)
            end(recorder, death, after_s)
            assert client.result() == expected
            if how == "pid" and recorder.poll() is None:
                recorder.terminate()
        # A recorder that attached after the query waited for another one until its session ended.
        _, stderr = recorder.communicate()
        check_no_crash(stderr)
        check_recording(output)
        check_nothing_left(tmp_path)
