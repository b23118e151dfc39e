"""However the recorder of a server's query is ended, the query comes to the same rows."""

import subprocess

import pytest

from harness import available, spillcast_command
from kills import check_nothing_left, check_recording, end, moments
from spillcast.recording.capture import SOURCES

QUERY = "select count(*), sum(length(f)), min(id), max(id) from t x join t y using (id, f)"


@pytest.mark.parametrize("capture", [name for name in SOURCES if SOURCES[name].attaches])
@pytest.mark.parametrize("how", ["backend", "pid"])
def test_a_query_goes_on(newest, tmp_path, capture, how):
    with newest.client() as client:
        client.run(QUERY)
        expected = client.result()
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
            _, stderr = recorder.communicate()
            assert "Traceback" not in stderr
        check_recording(output)
        check_nothing_left(tmp_path)
