"""Requests of io_uring among the waits of a recording: those that others were under way with."""

import numpy as np
import pyarrow as pa
import pyarrow.compute

#: How their events begin.
PREFIX = "io_uring_"


def beside_others(waits: pa.Table) -> pa.Array:
    """Whether each row is a request in flight together with others of its thread.

    The rows of its thread show how it waited for them; one that is alone is such a row itself.
    """
    event = waits["event"].unify_dictionaries().combine_chunks()
    requests = [str(name).startswith(PREFIX) for name in event.dictionary.to_pylist()]
    if not any(requests):
        return pa.array(np.zeros(len(event), dtype=bool))
    of_row = pa.array(requests, pa.bool_()).take(event.indices).fill_null(False)
    return pa.compute.and_(of_row, waits["blocked"].combine_chunks().is_null())


def most_at_once(requests: pa.Table) -> int:
    """The most of these rows that one session had under way at once."""
    start = requests["start_ns"].to_numpy()
    end = start + requests["elapsed_ns"].to_numpy()
    session = np.tile(requests["session"].to_numpy(), 2)
    step = np.repeat([1, -1], len(start))
    order = np.lexsort((step, np.concatenate([start, end]), session))
    return int(np.cumsum(step[order]).max(initial=0))
