"""A directory or tmpfs, probed with the temp I/O of Oracle's traces."""

from spillcast.errors import InputError
from spillcast.forecast.oracle.evidence import OracleEvidence
from spillcast.forecast.question import Question
from spillcast.storage.storage import Storage


def probed(text: str, evidence: OracleEvidence, question: Question) -> Storage:
    """What the reads and writes of the traces take on the target that ``text`` names.

    InputError without traces, and where these name no temp file. Refusal where the temp files would
    not fit into memory.
    """
    from spillcast.recording.trace_run import recording_of_traces
    from spillcast.storage.target import resolve

    if not evidence.paths:
        raise InputError(
            f"--to {text}: ASH samples cannot be replayed",
            "add a trace of at least a minute of the query, or give latency:150us, catalogue:NAME "
            "or a storage.json",
        )
    recording = recording_of_traces(evidence.paths, evidence.block.bytes, lenient=question.lenient)
    with question.watch(text) as show:
        return resolve(text, recording, budget=question.probe_budget, on_progress=show)
