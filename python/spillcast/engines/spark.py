"""Finds the local directories of a running Spark executor from files, variables and arguments."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from spillcast.recording.observed import IN_MEMORY, proc_text

#: Folders that an executor creates in a local directory: in local mode, and in a cluster.
_BLOCK_FOLDERS = ("blockmgr-*", "spark-*/blockmgr-*", "spark-*/executor-*/blockmgr-*")
#: Settings in the order in which Spark reads them: variables, then properties of the JVM.
_VARIABLES = ("SPARK_EXECUTOR_DIRS", "SPARK_LOCAL_DIRS")
_PROPERTIES = ("spark.local.dir", "java.io.tmpdir")


def local_dirs_notice(pid: int) -> str | None:
    """A notice about the local directories of a Spark process; None for any other process."""
    arguments = _strings(pid, "cmdline")
    if not any("org.apache.spark." in argument for argument in arguments):
        return None
    pairs = (entry.partition("=") for entry in _strings(pid, "environ"))
    for setting, directories in _candidates(
        pid, arguments, {name: value for name, _, value in pairs}
    ):
        root = f"/proc/{pid}/root"
        used = []
        for path in directories:
            with suppress(OSError):
                if any(any(Path(f"{root}{path}").glob(name)) for name in _BLOCK_FOLDERS):
                    used.append(path)
        if used:
            names = ", ".join(f"{path}{_in_memory(pid, path)}" for path in used)
            return f"Spark's local directories, by {setting}: {names}"
    return "Spark has made no local directory yet; its files are known by their names (blockmgr-*)"


def _strings(pid: int, name: str) -> list[str]:
    """The arguments or variables of a process; empty if they may not be read."""
    with suppress(OSError):
        content = Path(f"/proc/{pid}/{name}").read_bytes()
        return [os.fsdecode(word) for word in content.split(b"\0") if word]
    return []


def _candidates(
    pid: int, arguments: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[str, list[str]]]:
    """Settings and the directories that they name, in order of precedence."""
    if open_below := sorted(_opened(pid)):
        yield "its open files", open_below
    # YARN sets LOCAL_DIRS, which takes precedence in its containers.
    variables = (("LOCAL_DIRS",) if "CONTAINER_ID" in environment else ()) + _VARIABLES
    for name in variables:
        if environment.get(name):
            yield name, environment[name].split(",")
    for name in _PROPERTIES:
        for argument in arguments:
            # As in -Dspark.local.dir=/mnt, or after --conf.
            key, equals, value = argument.removeprefix("-D").partition("=")
            if equals and key == name:
                yield name, value.split(",")
    yield "default", ["/tmp"]


def _opened(pid: int) -> set[str]:
    directories = set()
    with suppress(OSError):
        for descriptor in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                before, folder, _ = os.readlink(descriptor).partition("/blockmgr-")
                directories |= {before} if folder else set()
    return directories


def _in_memory(pid: int, directory: str) -> str:
    """A remark if a directory is in memory, such as a Kubernetes emptyDir with medium Memory."""
    mounts = []
    for line in proc_text(f"{pid}/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4]
        if Path(directory).is_relative_to(point):
            mounts.append((len(point), after.split()[0]))
    # A later mount at the same point hides the earlier one.
    filesystem = max(reversed(mounts), key=lambda mount: mount[0], default=(0, ""))[1]
    return f" ({filesystem}: in memory)" if filesystem in IN_MEMORY else ""
