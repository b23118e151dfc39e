"""Temp files of ClickHouse to another directory: a file for config.d and a restart, printed."""

import os
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import escape

import typer

from spillcast.engines.move import Move, Step, limit_bytes
from spillcast.errors import OptionInvalid
from spillcast.text import shell_word

CONFIG = "/etc/clickhouse-server/config.d/spillcast_tmp.xml"
#: What names the place and its limit, and what the server uses now.
CHECK = (
    'clickhouse-client --query "SELECT name, value FROM system.server_settings WHERE name IN '
    "('tmp_path', 'tmp_policy', 'temporary_data_in_cache', 'max_temporary_data_on_disk_size')\""
)


def move(
    to: Annotated[Path, typer.Option(help="Directory of the temp files, for ClickHouse alone.")],
    size: Annotated[str | None, typer.Option(help="Limit of their size, such as 100G.")] = None,
) -> Move:
    """ClickHouse: configuration that a server reads at a restart. Only prints the steps.

    Example: spillcast move clickhouse --to /mnt/nvme/clickhouse --size 100G
    """
    path = os.path.abspath(to)
    if path == "/":
        raise OptionInvalid(f"--to {to} is not a directory for temp files")
    limit = ""
    if size is not None:
        name = "max_temporary_data_on_disk_size"
        limit = f"\n  <{name}>{limit_bytes(size)}</{name}>"
    # Either of these would take precedence over tmp_path.
    config = (
        f'<clickhouse>\n  <tmp_policy remove="1"/>\n  <temporary_data_in_cache remove="1"/>\n'
        f"  <tmp_path>{escape(path)}/</tmp_path>{limit}\n</clickhouse>"
    )
    restart = Step(
        "The server reads tmp_path only when it starts: running queries end.",
        "systemctl restart clickhouse-server",
    )
    steps = [
        Step("Note what is in use now.", CHECK),
        Step(
            "A directory of the server's user alone: at its start the server deletes files in it "
            "that begin with tmp.",
            f"install -d -o clickhouse -g clickhouse -m 750 {shell_word(f'{path}/')}",
        ),
        Step("Nothing is overwritten.", f"set -C; cat > {CONFIG} <<'XML'\n{config}\nXML"),
        Step("It is to be readable to the server.", f"chown clickhouse: {CONFIG}"),
        restart,
        Step("Check that the server uses it.", CHECK),
    ]
    revert = [Step("The setting of before.", f"rm {CONFIG}"), restart]
    warnings = [
        "ClickHouse Cloud and managed servers have no access to tmp_path",
        "a policy of storage (tmp_policy) with several disks is replaced by this one directory",
    ]
    if not os.path.isdir(path):
        warnings.append(f"{path} does not exist on this machine")
    return Move("clickhouse", path, "server", steps, revert, warnings=warnings)
