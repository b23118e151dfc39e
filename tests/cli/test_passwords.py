"""A password on spillcast's command line is removed from the process list after the start."""

import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cases import cases, nightly
from harness import spillcast, spillcast_command

SECRET = "Zq7xHunter2"
WAYS = {
    "address": "postgresql://etl:{}@127.0.0.1:{}/dw",
    "a short one": "postgresql://etl:{0:.1}@127.0.0.1:{1}/dw",
    "parameter of an address": "postgresql://127.0.0.1:{1}/dw?user=etl&password={0}",
    "connection string": "host=127.0.0.1 user=etl password='{}' port={}",
}
DAILY, *OTHERS = WAYS


@pytest.mark.parametrize("way", [DAILY, *nightly(*OTHERS)])
def test_a_password_is_not_in_the_list_of_processes(way):
    with socket.create_server(("127.0.0.1", 0)) as server:
        dsn = WAYS[way].format(SECRET, server.getsockname()[1])
        process = subprocess.Popen(
            spillcast_command("postgres", dsn), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        server.settimeout(60)
        # The program has connected, and waits for a response.
        with server.accept()[0]:
            place = Path(f"/proc/{process.pid}")
            words = (place / "cmdline").read_bytes()[:-1].split(b"\0")
            limits = (place / "limits").read_text()
        _, stderr = process.communicate()
    assert words[-2] == b"postgres"
    shown = words[-1].decode()
    assert len(shown) == len(dsn)
    assert SECRET not in shown
    assert ":Z@" not in shown
    assert shown.startswith(dsn[:12])
    assert b"PGPASSFILE" in stderr
    assert SECRET.encode() not in stderr
    core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core.split()[4] == "0"


@cases("verb", ["forecast", "profile", "fleet"])
def test_an_error_does_not_quote_a_password(verb):
    address = WAYS["address"].format(SECRET, 5432)
    target = () if verb == "profile" else ("--to", "latency:1ms")
    done = spillcast(verb, address, *target, "--json")
    assert done.returncode == 2
    assert "etl" in done.stderr
    assert SECRET not in done.stderr + done.stdout


def test_a_command_keeps_its_arguments_and_its_limit(tmp_path):
    code = "import resource, sys; print(sys.argv[1], resource.getrlimit(resource.RLIMIT_CORE)[0])"
    address = WAYS["address"].format(SECRET, 5432)
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    done = subprocess.run(
        spillcast_command(
            "record", "-o", tmp_path / "run.spill", "--", sys.executable, "-c", code, address
        ),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
    )
    assert f"{address} {hard}\n" in done.stdout
    assert "PGPASSFILE" not in done.stderr
