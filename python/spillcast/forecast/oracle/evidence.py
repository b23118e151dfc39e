"""What Oracle's evidence says of one run: traces of it, ASH, and what a flash cache serves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from spillcast.errors import InputError
from spillcast.evidence.find import Evidence
from spillcast.evidence.oracle.block_size import ASSUMED_BLOCK, BlockSize, block_size
from spillcast.evidence.oracle.statistics import TempOnFlash, read_statistics, temp_on_flash
from spillcast.evidence.oracle.trace_run import recording_of_traces
from spillcast.forecast.oracle.events import (
    AshEvidence,
    TraceEvidence,
    read_shares,
    read_traces,
    statements_of,
)
from spillcast.forecast.oracle.spilled import spilled_of
from spillcast.forecast.question import Question
from spillcast.forecast.work_memory import Spilled
from spillcast.recording.event_names import TEMP_EVENTS
from spillcast.recording.spill import sequential_share


@dataclass(frozen=True, kw_only=True)
class OracleEvidence:
    """Traces, ASH or both; ``flash`` is what statistics say of temp I/O in a flash cache.

    ``statements`` are the SQL_IDs that it is of, ``block`` how large its blocks are, and ``paths``
    the files of ``traces``.
    """

    traces: TraceEvidence | None = None
    ash: AshEvidence | None = None
    flash: TempOnFlash | None = None
    statements: frozenset[str] = frozenset()
    block: BlockSize = ASSUMED_BLOCK
    paths: Sequence[Path] = ()
    lenient: bool = False
    #: Which lines of the plan spill, and what more PGA would do, where that is told.
    spilled: Spilled | None = None

    @cached_property
    def sequential(self) -> Mapping[tuple[str, int], float]:
        """By op and size class (bytes), share of temp I/O that follows the last on its file.

        Empty where no trace tells file, block and count.
        """
        if not self.paths:
            return {}
        try:
            run = recording_of_traces(self.paths, self.block.bytes, lenient=self.lenient)
        except InputError:
            return {}
        return sequential_share(run)

    @property
    def covered_s(self) -> float:
        """Wall time that the evidence covers."""
        if self.ash is not None:
            return self.ash.elapsed_s
        return self.traces.elapsed_s if self.traces is not None else 0.0


def read_evidence(
    evidence: Evidence, question: Question, *, name_statements: bool = False
) -> OracleEvidence:
    """Read the files. InputError where they tell nothing of what is asked.

    The statements of traces are named where that is asked for: they are read once more for it.
    """
    traces = ash = None
    temp_events = question.temp_events or TEMP_EVENTS
    statements: frozenset[str] = frozenset()
    if evidence.traces:
        # Beside ASH, traces tell latencies, and may be of another run.
        of_traces = None if evidence.ash else question.sql_id
        with question.reading(evidence.traces) as read:
            traces = read_traces(
                evidence.traces, sql_id=of_traces, lenient=question.lenient, on_progress=read
            )
    if evidence.ash:
        with question.reading(evidence.ash) as read:
            ash = read_shares(evidence.ash, temp_events, question.chosen, read)
        statements = ash.statements
    elif question.sql_id is not None:
        statements = frozenset([question.sql_id])
    elif name_statements and evidence.traces:
        statements = statements_of(evidence.traces, temp_events, lenient=question.lenient)
    statistics = evidence.statistics
    block = block_size(question.block, evidence.parameters, evidence.traces)
    spilled = None
    if question.temp_events is None:
        samples = None if ash is None else ash.samples
        spilled = spilled_of(evidence, samples, block.bytes, lenient=question.lenient)
    return OracleEvidence(
        traces=traces,
        ash=ash,
        flash=temp_on_flash(read_statistics(statistics)) if statistics else None,
        statements=statements,
        block=block,
        paths=evidence.traces,
        lenient=question.lenient,
        spilled=spilled,
    )
