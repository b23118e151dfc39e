"""What temp files tell of the whole: what is still written beside reads, or hardly any more."""

from spillcast.forecast.to_come.said import QuantityEstimate
from spillcast.forecast.to_come.seen import Seen

#: Of what was written, so much more may come once nothing is written any more: another part of the
#: query may spill.
MORE = 0.3
#: Of what was written, so much must be unread for the rest to be its reading.
UNREAD_MIN = 0.02
#: While a query reads and writes, it writes again what it has read, or what does not fit while it
#: reads: from, about and to so many times what lies unread.
AGAIN = (0.06, 0.5, 2.5)
SOURCE = "files written and not yet read"


def estimates_by_spill(seen: Seen) -> list[QuantityEstimate]:
    """The bytes to be written yet; nothing tells them while it only writes."""
    written, unread = seen.done("write"), seen.unread
    if not written or unread.high < UNREAD_MIN * written:
        return []
    if "write" not in seen.doing:
        return [QuantityEstimate("writes", 0.0, 0.0, MORE * written, "spill", SOURCE)]
    if "read" not in seen.doing:
        return []
    low, about, high = (each * unread.about for each in AGAIN)
    return [QuantityEstimate("writes", low, about, high, "spill", SOURCE)]
