"""The process of a held query in chdb, ClickHouse as a library."""

import os
from pathlib import Path
from typing import Any

from chdb import session

from spillcast.engines.held import Session, serve


class ChdbSession(Session):
    """The query in a folder of tables, which one process at a time may open."""

    def __init__(self, query: dict[str, Any]) -> None:
        self.pid = os.getpid()
        folder = Path(query["folder"])
        folder.mkdir(exist_ok=True)
        # chdb has its temp files in the folder, whatever tmp_path says.
        temp = folder / "tmp"
        if query["temp"] is not None:
            if temp.is_symlink():
                temp.unlink()
            elif temp.exists():
                temp.rmdir()
            temp.symlink_to(query["temp"])
        self._connection = session.Session(str(folder))
        self._connection.query("create database if not exists lab")
        self._connection.query("use lab")
        for name, value in query.get("settings", {}).items():
            self._connection.query(f"set {name} = '{value}'")
        self._sql = query["sql"]

    def run(self) -> list[str]:
        """Run the statements; the rows of the last one."""
        results = [self._connection.query(sql, "TSV") for sql in self._sql.split(";")]
        return str(results[-1]).splitlines()


if __name__ == "__main__":
    serve(ChdbSession, RuntimeError)
