"""Common mistakes of users: each gets a line that names it, and a line with the fix."""

import pytest

from cases import cases
from evidence import recording, storage
from harness import completed, environment, error_code, spillcast

K = 1 << 10
#: Arguments, in a folder with run.spill, flash.json and nvme/; words of the first line,
#: which names the mistake, and of the second, which has the fix.
MISTAKES = {
    "a latency without a unit": (
        ("forecast", "run.spill", "--to", "latency:150"), "--to latency:150: '150' has no unit",
        "150us or 150ms",
    ),
    "a latency in another form": (
        ("forecast", "run.spill", "--to", "latency=150us"), "latency=150us",
        "do you mean latency:150us?",
    ),
    "a bare latency": (
        ("forecast", "run.spill", "--to", "150us"), "--to 150us", "do you mean latency:150us?",
    ),
    "a factor in another form": (
        ("forecast", "run.spill", "--to", "60x"), "--to 60x", "do you mean factor:60?",
    ),
    "a name of the catalogue": (
        ("forecast", "run.spill", "--to", "aws-gp3"), "--to aws-gp3",
        "do you mean catalogue:aws-gp3?",
    ),
    "half a name of the catalogue": (
        ("forecast", "run.spill", "--to", "gp3"), "--to gp3", "do you mean catalogue:aws-gp3?",
    ),
    "a name spelt otherwise": (
        ("forecast", "run.spill", "--to", "catalog:aws-gp3"), "catalog:aws-gp3",
        "do you mean catalogue:aws-gp3?",
    ),
    "a name mistyped": (
        ("forecast", "run.spill", "--to", "catalogue:aws-pg3"), "catalogue:aws-pg3", "aws-gp3",
    ),
    "memory by another name": (
        ("forecast", "run.spill", "--to", "ram"), "--to ram", "do you mean tmpfs?",
    ),
    "a directory mistyped": (
        ("forecast", "run.spill", "--to", "nvmee"), "--to nvmee", "do you mean nvme?",
    ),
    "a storage mistyped": (
        ("forecast", "run.spill", "--to", "falsh.json"), "--to falsh.json",
        "do you mean flash.json?",
    ),
    "a device": (
        ("forecast", "run.spill", "--to", "/dev/null"),
        "--to /dev/null is not a file or directory",
        "name a directory",
    ),
    "a variable that is not set": (
        ("forecast", "run.spill", "--to", ""), "--to '': names nothing", "variable",
    ),
    "a recording mistyped": (
        ("forecast", "rnu.spill", "--to", "factor:2"), "rnu.spill", "do you mean run.spill?",
    ),
    "a recording without its suffix": (
        ("profile", "run"), "run: there is no such file", "do you mean run.spill?",
    ),
    "a target without its option": (
        ("forecast", "run.spill", "latency:150us"), "latency:150us", "named with --to",
    ),
    "a name of the catalogue without its option": (
        ("forecast", "run.spill", "aws-gp3"), "aws-gp3: there is no such", "named with --to",
    ),
    "a limit without its form": (
        ("forecast", "run.spill", "--to", "iops=3000"), "--to iops=3000",
        "do you mean limits:iops=3000,",
    ),
    "a limit with the colon of other forms": (
        ("forecast", "run.spill", "--to", "iops:3000"), "--to iops:3000",
        "do you mean limits:iops=3000,",
    ),
    "a mount that is not there": (
        ("forecast", "run.spill", "--to", "/nowhere/nvme"), "--to /nowhere/nvme", "a directory",
    ),
    "an option without its value": (
        ("forecast", "run.spill", "--to"), "forecast: option '--to'", "spillcast forecast -h",
    ),
    "a database without its key": (
        ("postgres", "dw"), "dw: there is no such file", "dbname=",
    ),
    "an engine that move does not know, the name of a folder": (
        ("move", "nvme", "--to", "/mnt/a"), "move: no such command 'nvme'", "spillcast move -h",
    ),
    "nothing to rank": (("postgres",), "DSN|LOGS|DIR", "DSN|LOGS|DIR: a server"),
    "a file of a recording": (
        ("forecast", "run.spill/meta.json", "--to", "factor:2"), "meta.json", "give its folder",
    ),
    "a directory in place of a measured storage": (
        ("storage", "compare", "nvme", "flash.json"), "nvme is a directory", "probe nvme --grid",
    ),
    "an elapsed time mistyped": (
        ("forecast", "run.spill", "--to", "factor:2", "--elapsed", "12m53"), "--elapsed: '12m53'",
        "write for example",
    ),
    "a decimal comma": (
        ("forecast", "run.spill", "--to", "factor:2", "--within", "1,5s"), "--within: '1,5s'",
        "write 1.5s",
    ),
    "a budget with a decimal comma": (
        ("forecast", "run.spill", "--to", "nvme", "--budget", "1,5G"), "--budget 1,5G",
        "or 1.5G",
    ),
    "a rehearsal in words": (
        ("forecast", "run.spill", "--to", "nvme", "--rehearse", "ten"), "--rehearse: 'ten'",
        "write for example",
    ),
    "a cache without a unit": (
        ("forecast", "run.spill", "--to", "cache:flash.json+flash.json?size=2"), "'2' has no unit",
        "2K, 2M, 2G",
    ),
    "a present cache without a unit": (
        ("clickhouse", "none", "--to", "factor:2", "--from", "cache:a+b?size=2"),
        "--from cache:a+b?size=2: '2' has no unit", "2K, 2M, 2G",
    ),
    "a cache of what is not there": (
        ("forecast", "run.spill", "--to", "cache:flash.json+aws-st1?size=2T"), "aws-st1",
        "do you mean catalogue:aws-st1?",
    ),
    "watching for a bare latency": (
        ("record", "--live", "--pid", "1", "--json", "--to", "latency:9"),
        "--to latency:9: '9' has no unit",
        "9us or 9ms",
    ),
    "emulating a bare latency": (
        ("emulate", "nvme", "--read", "9"), "--read: '9' has no unit", "9us or 9ms",
    ),
    "a bare bandwidth": (
        ("emulate", "nvme", "--read", "9ms", "--bandwidth", "200"), "--bandwidth: '200'",
        "500MiB/s",
    ),
    "emulating a name of the catalogue": (
        ("emulate", "nvme", "--storage", "linux-hdd"), "linux-hdd",
        "do you mean catalogue:linux-hdd?",
    ),
    "sweeping a bare latency": (
        ("sweep", "memory", "--on", "latency:1"), "--on latency:1: '1' has no unit", "1us or 1ms",
    ),
    "sweeping bare sizes": (
        ("sweep", "memory", "--memory", "4..64"), "--memory 4..64: '4' has no unit", "4K, 4M, 4G",
    ),
    "a whole command in quotes": (
        ("record", "--", "sort -S 1M big"), "'sort -S 1M big': no such command",
        "leave out the quotes, as in -- sort -S",
    ),
    "a file in place of a program": (
        ("record", "--", "./flash.json"),
        "./flash.json is not a program", "the program that runs it",
    ),
    "seconds in place of minutes": (
        ("forecast", "run.spill", "--to", "factor:2", "--elapsed", "2"),
        "an elapsed time of 2 s is less than the 25 s that were recorded", "12m or 12:53",
    ),
    "a duration in words": (
        ("record", "--duration", "soon", "--", "true"), "--duration: 'soon'", "write for example",
    ),
    "a quota of nothing": (
        ("forecast", "run.spill", "--to", "flash.json", "--cpu-quota", "0"), "--cpu-quota 0",
        "such as 0.4",
    ),
    "a cache's size": (("cache", "run.spill", "--size", "80"), "--size: '80'", "80G"),
    "a mount's size": (
        ("move", "tmpfs", "--to", "/mnt/temp", "--size", "8"), "--size: '8'", "8G",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a recording, a storage, and a directory on a storage."""
    path = tmp_path_factory.mktemp("mistakes")
    loads = [("write", 256 * K, 40, 4_000_000), ("read", 256 * K, 40, 6_000_000)]
    recording(path / "run.spill", loads, elapsed_s=25.0, cpu_s=5.0)
    storage({("write", 256 * K): 400_000, ("read", 256 * K): 300_000}).save(path / "flash.json")
    (path / "nvme").mkdir()
    return path


@cases("mistake", MISTAKES)
def test_a_mistake_is_named_and_fixed(folder, mistake):
    arguments, named, mended = MISTAKES[mistake]
    result = spillcast(*arguments, cwd=folder, env=environment())
    assert result.returncode == 2, result.stderr
    if "--json" in arguments:
        assert error_code(result) == "option-invalid"
    else:
        assert result.stdout == ""
    first, second, *more = result.stderr.splitlines()
    assert named in first
    assert mended in second
    assert more == []
    assert sorted(item.name for item in folder.iterdir()) == ["flash.json", "nvme", "run.spill"]


@cases("elapsed", ["12:53", "12m53s", "12 min 53 s", "00:12:53", "773"])
def test_a_time_in_the_format_of_other_tools_is_read(folder, elapsed):
    requested = ("forecast", "run.spill", "--to", "factor:2", "--elapsed", elapsed)
    result = completed(*requested, cwd=folder, env=environment())
    assert " of 12 min 53 s." in " ".join(result.stdout.split())


def test_a_repeated_target_counts_once(folder):
    requested = ("forecast", "run.spill", *(2 * ("--to", "factor:2")), "--csv")
    result = spillcast(*requested, cwd=folder, env=environment())
    assert len(result.stdout.splitlines()) == 2, result.stderr
