"""What Oracle's evidence says of one run: traces of it, ASH, and what a flash cache serves."""

from dataclasses import dataclass

from spillcast.forecast.oracle.events import (
    AshEvidence,
    TraceEvidence,
    read_shares,
    read_traces,
)
from spillcast.forecast.question import Question
from spillcast.recording.event_names import TEMP_EVENTS
from spillcast.recording.evidence import Evidence
from spillcast.recording.statistics import TempOnFlash, read_statistics, temp_on_flash


@dataclass(frozen=True, kw_only=True)
class OracleEvidence:
    """Traces, ASH or both; ``flash`` is what statistics say of temp I/O in a flash cache."""

    traces: TraceEvidence | None = None
    ash: AshEvidence | None = None
    flash: TempOnFlash | None = None

    @property
    def covered_s(self) -> float:
        """Wall time that the evidence covers."""
        if self.ash is not None:
            return self.ash.elapsed_s
        return self.traces.elapsed_s if self.traces is not None else 0.0


def read_evidence(evidence: Evidence, question: Question) -> OracleEvidence:
    """Read the files. InputError where they tell nothing of what is asked."""
    traces = ash = None
    if evidence.traces:
        # Beside ASH, traces tell latencies, and may be of another run.
        of_traces = None if evidence.ash else question.sql_id
        with question.reading(evidence.traces) as read:
            traces = read_traces(
                evidence.traces, sql_id=of_traces, lenient=question.lenient, on_progress=read
            )
    if evidence.ash:
        with question.reading(evidence.ash) as read:
            ash = read_shares(evidence.ash, question.boost or TEMP_EVENTS, question.sql_id, read)
    statistics = evidence.statistics
    flash = temp_on_flash(read_statistics(statistics)) if statistics else None
    return OracleEvidence(traces=traces, ash=ash, flash=flash)
