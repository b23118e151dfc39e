"""The mean of earlier calls of a statement, whose row of pg_stat_statements a recording keeps."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spillcast.errors import InputError, Refusal
from spillcast.evidence.counts import Counts
from spillcast.evidence.postgres.statements import StatementRow, chosen, counts_of_row, merged
from spillcast.gate import damaged
from spillcast.recording import Recording
from spillcast.recording.meta import CALLS_FILE


def previous_calls(recording: Recording) -> Counts | str | None:
    """The mean of earlier calls of the statement, kept in the recording; or why it is not used."""
    try:
        if (rows := recording.decoded(CALLS_FILE, _rows)) is None:
            return None
        # The kept row has no text, and the recording knows the processes.
        row = replace(
            chosen(rows),
            query=recording.meta.engine.query,
            looks=recording.samples.num_rows,
            workers_seen=len(recording.meta.server.workers) if recording.meta.server else 0,
        )
        return counts_of_row(row, timed=False)
    except (InputError, Refusal) as error:
        return error.message.removeprefix(f"{recording.path / CALLS_FILE}: ")


def _rows(document: Any) -> Sequence[StatementRow]:
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
        raise damaged("no rows of pg_stat_statements")
    return merged(map(StatementRow.of, document))
