"""Verbs that imitate storage that is not here: emulate, cache."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillcast.cli.options import Lenient, option
from spillcast.cli.usage import Answer, refuse
from spillcast.errors import OptionInvalid, OptionMissing, PathMissing
from spillcast.units import parse_bytes

if TYPE_CHECKING:
    from spillcast.cache.simulation import Devices
    from spillcast.storage.emulation import Mount


def emulate(
    mountpoint: Annotated[Path, typer.Argument(metavar="MOUNT", help="An empty directory.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run while it is mounted, after --.")
    ] = None,
    storage: Annotated[
        str | None, option("--storage STORAGE", "A storage.json, a recording, catalogue:NAME.")
    ] = None,
    read: Annotated[
        str | None, option("--read TIME", "Latency of every read, such as 9ms.")
    ] = None,
    write: Annotated[
        str | None, option("--write TIME", "Latency of every write, such as 4ms.")
    ] = None,
    bandwidth: Annotated[
        str | None, option("--bandwidth RATE", "Total bandwidth, such as 200MB/s.")
    ] = None,
    servers: Annotated[
        int | None, option("--servers N", "Operations served at once; the others queue.", min=1)
    ] = None,
    page_cache: Annotated[
        bool, option("--page-cache", "Use the page cache, as a disk does.")
    ] = False,
    backing: Annotated[
        Path | None, option("--backing DIR", "Stores the files, which then stay after the unmount.")
    ] = None,
) -> Answer:
    """Mount a directory that is as slow as storage you do not own.

    Reads and writes take as long as on that storage and bypass the page cache. Without --backing
    the files are deleted at the end. It ends with the command, whose exit status it returns, or
    with Ctrl-C.

    Example: spillcast emulate /mnt/slow --read 9ms --write 4ms --servers 1

    Example: spillcast emulate /mnt/slow --storage nvme.json -- duckdb warehouse.db -f query.sql
    """
    from contextlib import ExitStack

    from spillcast.cli.progress import progress_bar
    from spillcast.interruptible import interrupted_once
    from spillcast.report.storage import emulation_page, mounted_text
    from spillcast.storage.emulation import check_program, model_of_options
    from spillcast.storage.emulation import emulate as emulated
    from spillcast.workspace import workspace

    if backing is not None and not backing.is_dir():
        raise PathMissing(f"--backing {backing}: there is no such directory", "make it")
    if command:
        check_program(command)
    model = model_of_options(storage, read, write, bandwidth, servers)
    with ExitStack() as stack:
        held = backing or stack.enter_context(workspace())
        with progress_bar(f"mounting {mountpoint}"):
            mount = stack.enter_context(emulated(model, mountpoint, held, page_cache=page_cache))
        end = f"{command[0]} ends it" if command else "Ctrl-C ends it"
        words = mounted_text(mount, temporary=backing is None, end=end)
        print(words, file=sys.stderr, flush=True)
        status = _serve(mount, command)
        # From here on it ends by itself; another Ctrl-C would only leave the rest of it out.
        interrupted_once()
        result = mount.result()
    return Answer(
        lambda: result.to_json() | {"command": command or None, "exit_status": status},
        lambda: emulation_page(result),
        status or 0,
    )


def _serve(mount: "Mount", command: list[str] | None) -> int | None:
    """Serve until the end; the exit status of the command, if there is one."""
    from spillcast.cli.progress import live_line
    from spillcast.report.storage import mount_status
    from spillcast.storage.emulation import run_command, stay

    # A command has the terminal to itself.
    with live_line(show=not command) as write:
        before = mount.result()

        def tick() -> None:
            nonlocal before
            now = mount.result()
            write(mount_status(now, before))
            before = now

        if command:
            return run_command(command, tick)
        stay(mount, tick)
        return None


def _parse_unit(text: str, name: str) -> int:
    """Bytes of a block or a line."""
    count = parse_bytes(text, name)
    if not 0 < count < 1 << 32:
        raise OptionInvalid(f"{name} {text}: not a possible size", f"for example {name} 64K")
    return count


def cache(
    trace: Annotated[
        list[str],
        typer.Argument(
            help="Oracle traces, a recording, CSV files, an oracleGeneral file, or counts of "
            "v$mystat and CellCLI."
        ),
    ],
    size_bytes: Annotated[
        int | None,
        option(
            "--size SIZE", "Size of the cache (default: the miss curve alone).", parse=parse_bytes
        ),
    ] = None,
    policy: Annotated[
        str, option("--policy NAME", "keep (Exadata's), bypass, lru, fifo, sieve, s3fifo or arc.")
    ] = "lru",
    keep: Annotated[
        list[str] | None,
        option("--keep OBJECT", "Object that is KEEP, with --policy keep. Repeatable."),
    ] = None,
    temp_writes: Annotated[bool, option("--temp-writes", "Also cache temp data.")] = False,
    temp_share: Annotated[
        float,
        option("--temp-share SHARE", "Share for temp data, with --policy keep.", min=0, max=1),
    ] = 0.5,
    line_bytes: Annotated[
        int | None,
        option(
            "--line SIZE",
            "Size of a cache line (default: 64K; for oracleGeneral one id).",
            parse=_parse_unit,
        ),
    ] = None,
    flash: Annotated[
        str | None, option("--flash RATE", "9G/s, or 9G/s,3.4G/s to read and write, or a storage.")
    ] = None,
    disk: Annotated[
        str | None, option("--disk RATE", "The same for the disk behind the cache.")
    ] = None,
    from_flash: Annotated[
        float, option("--from-flash SHARE", "Share of hits that flash serves.", min=0, max=1)
    ] = 1.0,
    runs: Annotated[
        int, option("--runs N", "How often the same I/O is repeated.", min=1, max=100)
    ] = 2,
    cells: Annotated[
        int, option("--cells N", "Storage servers that share what is cached.", min=1)
    ] = 1,
    sample: Annotated[
        float | None,
        option("--sample SHARE", "Share of lines sampled for the curve (default: all)."),
    ] = None,
    error: Annotated[
        float | None,
        option(
            "--error POINTS",
            "Mean error allowed for the curve, in percentage points, such as 0.2 (default: exact).",
        ),
    ] = None,
    block_bytes: Annotated[
        int | None,
        option("--block SIZE", "Block size of Oracle's traces (default: 8K).", parse=_parse_unit),
    ] = None,
    lenient: Lenient = False,
) -> Answer:
    """Simulate a flash cache in front of a disk.

    The first run fills the cache, the second uses it; the curve is that of the last run.

    Example: spillcast cache scan.trc --size 90G --policy keep --keep 115825

    Example: spillcast cache run.spill --size 2G --temp-writes

    Example: spillcast cache trace.oracleGeneral --error 0.2 --runs 1
    """
    from spillcast.cache.evidence import BLOCK_BYTES, read_requests
    from spillcast.cache.result import cache_result
    from spillcast.cache.simulation import CacheOptions, curve, simulate
    from spillcast.cli.progress import progress_bar
    from spillcast.report.cache import cache_page

    options = None
    if size_bytes is None:
        refuse({"--keep": keep, "--flash": flash, "--disk": disk}, "is of a cache: give --size")
    else:
        options = CacheOptions(
            size_bytes, policy, keep or (), temp_writes, temp_share, from_flash, runs
        )
        options.check()
    with progress_bar(f"reading {trace[0]}"):
        requests = read_requests(
            trace, line_bytes=line_bytes, block_bytes=block_bytes or BLOCK_BYTES, lenient=lenient
        )
    devices = _devices(flash, disk, requests.line_bytes)
    with progress_bar("simulating the cache", "requests") as watch:
        simulated = None
        if options is not None:
            simulated = simulate(requests, options, devices, cells=cells, on_progress=watch)
    with progress_bar("making the curve", "requests") as watch:
        miss_curve = curve(
            requests,
            rate=sample,
            error_points=error,
            temp_writes=temp_writes,
            runs=runs,
            on_progress=watch,
        )
    result = cache_result(simulated, miss_curve, requests.notes)
    return Answer(result.to_json, lambda: cache_page(result, miss_curve, cells=cells))


def _devices(flash: str | None, disk: str | None, operation_bytes: int) -> "Devices | None":
    from spillcast.storage.cached import device

    if flash is None and disk is None:
        return None
    if flash is None or disk is None:
        raise OptionMissing(
            "flash and disk are read at the same time: give both --flash and --disk",
            "for example --flash 9G/s,3.4G/s --disk 4.26G/s",
        )
    return device(flash, "--flash", operation_bytes), device(disk, "--disk", operation_bytes)
