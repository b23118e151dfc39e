"""A minimal engine: its query writes random numbers to a temp file and reads them back."""

import os
import tempfile

from spillcast.engines import Engine, LabQuery
from spillcast.engines.queries import QueryProcess, QuerySession
from spillcast.recording.meta import ObservedEngine

BLOCK_BYTES = 16 << 10


class PaperLab:
    """Spills as many blocks as the table has rows; there is nothing to build."""

    demo = LabQuery("shuffle", "", rows=400, memory="")
    label = "Paper 1.0"

    def __init__(self, workdir):
        """Keeps nothing in ``workdir``."""

    @staticmethod
    def verified(threads):
        return [LabQuery("shuffle", "", 100, "", threads)]

    def build(self, rows):
        """Does nothing, as there is no table."""

    def hold(self, workload, temp, environment):
        query = {"blocks": workload.rows, "temp": temp}
        return QueryProcess("Paper", PaperQuery, query, environment)

    def describe(self, workload):
        return ObservedEngine("paper", "1.0", query=f"shuffle {workload.rows} blocks")


class PaperQuery(QuerySession):
    """The query in this process."""

    def __init__(self, blocks, temp):
        self.pid, self._blocks, self._temp = os.getpid(), blocks, temp

    def run(self):
        with tempfile.TemporaryFile(dir=self._temp, buffering=0) as file:
            blocks = range(self._blocks)
            for number in blocks:
                os.pwrite(file.fileno(), os.urandom(BLOCK_BYTES), number * BLOCK_BYTES)
            parts = (os.pread(file.fileno(), BLOCK_BYTES, n * BLOCK_BYTES) for n in blocks)
            return [sum(map(len, parts))]


ENGINE = Engine(name="paper", label="Paper", lab="paper_engine:PaperLab")
