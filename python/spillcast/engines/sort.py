"""Experiments on GNU sort: it sorts files of lines in a small buffer."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from spillcast.engines import Lab, LabQuery
from spillcast.engines.queries import QueryProcess, QuerySession, Scheduled, end_with_parent
from spillcast.errors import ProgramMissing
from spillcast.recording.meta import ObservedEngine

PROGRAM = "sort"
ROWS, MEMORY = 400_000, "2M"
#: Options of sort by the name of the query; comparisons of some keys take more CPU time.
KEYS = {
    "lines": "",
    "numbers": "-k 2,2n",
    "unique": "-u",
    "floating point": "-k 2,2g",
    "versions": "-V",
}


class SortLab(Lab):
    """GNU sort of this machine. ProgramMissing if there is none, or if sort is not GNU's."""

    engine: ClassVar[str] = "sort"
    demo: ClassVar[LabQuery] = LabQuery("sort", "", rows=3_000_000, memory="8M")

    def __init__(self, workdir: Path) -> None:
        self._workdir = workdir
        program = shutil.which(PROGRAM)
        version = [program or PROGRAM, "--version"]
        printed = subprocess.run(version, capture_output=True, text=True).stdout if program else ""
        if "GNU coreutils" not in printed:
            raise ProgramMissing("sort of GNU coreutils is not on the PATH")
        self.version = printed.partition("\n")[0].rpartition(" ")[2]
        self.label = f"GNU sort {self.version}"

    @staticmethod
    def verified(threads: int) -> Sequence[LabQuery]:
        """The sorts of a verification: 2,200 temp operations each."""
        return [
            LabQuery(name, keys, ROWS, MEMORY, threads, cpu_s=0.5, operations=2200)
            for name, keys in KEYS.items()
        ]

    def build(self, rows: int) -> None:
        """Writes the file of ``rows`` lines with two numbers each, unless it exists."""
        if not self._lines(rows).exists():
            random = Random(rows)
            with self._lines(rows).open("w") as file:
                for _ in range(rows):
                    file.write(f"{random.randrange(10**6)} {random.randrange(1000)}\n")

    def hold(
        self, workload: LabQuery, temp: Path, environment: Mapping[str, str]
    ) -> AbstractContextManager[QueryProcess]:
        """A sort in a separate process, which prints nothing."""
        options = ["-S", workload.memory, f"--parallel={workload.threads}", "-T", str(temp)]
        lines = str(self._lines(workload.rows))
        command = [PROGRAM, *workload.sql.split(), *options, "-o", os.devnull, lines]
        return QueryProcess("GNU sort", SortSession, {"command": command}, environment)

    def settings_of(self, workload: LabQuery) -> dict[str, Any]:
        """The options of a sort that meta.json keeps."""
        return {"-S": workload.memory, "--parallel": workload.threads}

    def describe(self, workload: LabQuery) -> ObservedEngine:
        """The engine and the command for meta.json."""
        return super().describe(replace(workload, sql=f"sort {workload.sql}"))

    def _lines(self, rows: int) -> Path:
        return self._workdir / f"{rows}.txt"


class SortSession(QuerySession):
    """A child process that executes the program when ``run`` opens the gate."""

    def __init__(self, command: list[str]) -> None:
        gate, self._open_gate = os.pipe()
        self._ended: Scheduled | None = None
        self.pid = os.fork()
        if self.pid == 0:
            end_with_parent()
            os.read(gate, 1)
            os.execvpe(PROGRAM, command, os.environ | {"LC_ALL": "C"})

    def run(self) -> list[int]:
        """Runs the program to its end and returns its exit status. OSError if it failed."""
        os.write(self._open_gate, b"\n")
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        # Only the usage of the whole process includes the CPU time of threads that have ended.
        delay_s = self.scheduled().run_queue_delay_s
        _, status, usage = os.wait4(self.pid, 0)
        self._ended = Scheduled(usage.ru_utime + usage.ru_stime, delay_s)
        if (code := os.waitstatus_to_exitcode(status)) != 0:
            raise OSError(f"exit status {code}")
        return [code]

    def scheduled(self) -> Scheduled:
        """The times of the program's threads."""
        return self._ended or super().scheduled()
