"""The mean of earlier calls of a statement, whose row of pg_stat_statements a recording keeps."""

from dataclasses import replace

from spillcast.errors import InputError, Refusal
from spillcast.evidence.counts import Counts
from spillcast.evidence.postgres.statements import StatementRow, chosen, counts_of_row, merged
from spillcast.gate import damaged, reading
from spillcast.recording import Recording
from spillcast.recording.meta import CALLS_FILE


def previous_calls(recording: Recording) -> Counts | str | None:
    """The mean of earlier calls of the statement, kept in the recording; or why it is not used."""
    path = recording.path / CALLS_FILE
    try:
        if (document := recording.document(CALLS_FILE)) is None:
            return None
        with reading(path):
            if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
                raise damaged("no rows of pg_stat_statements")
            rows = merged(map(StatementRow.of, document))
        # The kept row has no text, and the recording knows the processes.
        row = replace(
            chosen(rows),
            query=recording.meta.engine.query,
            looks=recording.samples.num_rows,
            workers_seen=len(recording.meta.server.workers) if recording.meta.server else 0,
        )
        return counts_of_row(row, timed=False)
    except (InputError, Refusal) as error:
        return error.message.removeprefix(f"{path}: ")
