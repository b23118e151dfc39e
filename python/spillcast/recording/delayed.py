"""Which rows of a perturbed recording are the delays that it was given."""

import numpy as np
from numpy.typing import NDArray

from spillcast.recording.recording import Recording

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: A sleep may be recorded a little shorter than it was asked for.
SHORTER = 0.9


def windows_of(windows_s: list[list[float]], start_ns: Whole) -> Whole:
    """The window that each operation began in, by its number; -1 for none."""
    bounds_ns = np.rint(np.array(windows_s)[:, :2] * 1e9)
    window = np.searchsorted(bounds_ns[:, 0], start_ns, side="right") - 1
    window[(window >= 0) & (start_ns >= bounds_ns[window, 1])] = -1
    return window


def sleeps(recording: Recording) -> Flags:
    """Rows of ``Recording.waits`` in which a thread slept because it was delayed.

    A delay is the first wait of its thread after a temp operation that began in a window; nobody
    ends it, and it lasts at least as long as was asked for.
    """
    waits = recording.waits
    found = np.zeros(len(waits), dtype=bool)
    windows_s = (recording.meta.get("perturbation") or {}).get("windows_s")
    if not windows_s or not len(waits):
        return found
    order = np.argsort(waits["session"].to_numpy(), kind="stable")
    before, own = order[:-1], order[1:]
    session = waits["session"].to_numpy()
    window = windows_of(windows_s, waits["start_ns"].to_numpy()[before])
    delay_ns = np.array(windows_s)[:, 2][window] * 1e9
    temp = waits["temp"].to_numpy() & waits["op"].is_valid().to_numpy()
    waited = waits["op"].is_null().to_numpy() & waits["woken_by"].is_null().to_numpy()
    found[own] = (
        (session[before] == session[own])
        & (window >= 0)
        & temp[before]
        & waited[own]
        & (waits["elapsed_ns"].to_numpy()[own] >= SHORTER * delay_ns)
    )
    return found
