"""The end of a server's own log, where its role may read it."""

import re
from pathlib import Path

from spillcast.engines.postgres.connection import Connection, text_of_server
from spillcast.evidence.postgres.logs import Logs, logs_of

#: So much of its end is read, in pieces that no server notices.
READ_MAX_BYTES, PIECE_BYTES = 32 << 20, 4 << 20
#: Those with the statement beside its temp files come first.
_FORMATS = ("csvlog", "jsonlog", "stderr")
_NAME = "select pg_current_logfile(%s)"
_SIZE = "select size from pg_stat_file(%s)"
_PIECE = "select pg_read_binary_file(%s, %s, %s)"


def server_log(connection: Connection) -> Logs | None:
    """Its temp files and plans; None if it is unreadable or has none."""
    import psycopg

    for kind in _FORMATS:
        try:
            name = connection.execute(_NAME, [kind]).fetchone()
            if name is None or name[0] is None:
                continue
            logs = logs_of(Path(str(name[0])), _end(connection, str(name[0])))
        except psycopg.Error:
            return None
        return logs if logs.temp or logs.plans or logs.exceeded else None
    return None


def _end(connection: Connection, name: str) -> str:
    """The last part of a file, from the beginning of a message on."""
    (size,) = connection.execute(_SIZE, [name]).fetchone() or (0,)
    begin = max(0, size - READ_MAX_BYTES)
    pieces = []
    for at in range(begin, size, PIECE_BYTES):
        read = connection.execute(_PIECE, [name, at, min(PIECE_BYTES, size - at)]).fetchone()
        pieces.append(read[0] if read else b"")
    text = text_of_server(b"".join(pieces))
    if begin == 0:
        return text
    dated = re.search(r"\n(?=\d{4}-\d\d-\d\d \d\d:|\{)", text)
    return text[dated.end() :] if dated else text[text.find("\n") + 1 :]
