"""What temp files tell of the whole: what is still written beside reads, or hardly any more."""

from spillcast.forecast.to_come.said import Said
from spillcast.forecast.to_come.seen import Seen

#: Of what was written, so much more may come once nothing is written any more: another part of the
#: query may spill.
MORE = 0.3
#: Of what was written, so much must be unread for the rest to be its reading.
UNREAD_MIN = 0.02
#: While a query reads and writes, it writes again what it has read, or what does not fit while it
#: reads: from, about and to so many times what lies unread.
AGAIN = (0.06, 0.5, 2.5)
#: While it only writes: from, about and to so many times what it has written.
WRITING = (0.12, 1.8, 10.0)
WRITTEN = "what was written so far"
SOURCE = "files written and not yet read"


def spill_says(seen: Seen) -> list[Said]:
    """The bytes to be written yet; while it only writes that is known least."""
    written, unread = seen.done("write"), seen.unread
    if not written or unread.high < UNREAD_MIN * written:
        return []
    if "write" not in seen.doing:
        return [Said("writes", 0.0, 0.0, MORE * written, "spill", SOURCE)]
    reads = "read" in seen.doing
    base, times, source = (unread.about, AGAIN, SOURCE) if reads else (written, WRITING, WRITTEN)
    low, about, high = (each * base for each in times)
    return [Said("writes", low, about, high, "spill", source)]
