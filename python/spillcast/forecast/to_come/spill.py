"""What temp files tell of the whole: once they are only read, hardly any writes are to come."""

from spillcast.forecast.to_come.said import Said
from spillcast.forecast.to_come.seen import Seen

#: Of what was written, so much more may come once nothing is written any more: another part of the
#: query may spill.
MORE = 0.3
#: Of what was written, so much must be unread for the rest to be its reading.
UNREAD_MIN = 0.02
SOURCE = "files written and not yet read"


def spill_says(seen: Seen) -> list[Said]:
    """The bytes to be written yet, where the query reads and no longer writes."""
    written = seen.done("write")
    if "write" in seen.doing or not written or seen.unread.high < UNREAD_MIN * written:
        return []
    return [Said("writes", 0.0, 0.0, MORE * written, "spill", SOURCE)]
