"""Verbs that measure, describe and imitate storages: probe, storage, emulate, cache."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.options import BudgetOption, Elapsed, ItemOption, Lenient, option
from spillcast.cli.output import Answer
from spillcast.cli.usage import AnswerCommand, command_group, refuse
from spillcast.errors import (
    EvidenceUnsuited,
    OptionInvalid,
    OptionMissing,
    PathMissing,
    TargetIncomplete,
)
from spillcast.recording import OPS
from spillcast.units import parse_bytes

if TYPE_CHECKING:
    from spillcast.cache.simulation import Devices
    from spillcast.evidence.counts import Counts
    from spillcast.recording import Recording
    from spillcast.storage import Storage
    from spillcast.storage.emulation import Mount


def probe(
    directory: Annotated[
        Path | None, typer.Argument(help="Directory on the storage to measure.")
    ] = None,
    like: Annotated[
        Path | None, option("--like FILE", "Recording, plan or Oracle trace to replay.")
    ] = None,
    grid: Annotated[
        bool, option("--grid", "Measure op by size, depth, pattern and page cache.")
    ] = False,
    output: Annotated[
        Path | None, option("--output, -o FILE", "File to write, such as storage.json.")
    ] = None,
    iolog: Annotated[
        Path | None, option("--iolog FILE", "Write the recorded I/O as a log for fio --read_iolog.")
    ] = None,
    block: Annotated[
        str | None, option("--block SIZE", "Block size of an Oracle trace, such as 16K.")
    ] = None,
    item: ItemOption = None,
    elapsed_s: Elapsed = None,
    psync: Annotated[bool, option("--psync", "Do not use io_uring for --grid.")] = False,
    budget: BudgetOption = "60s",
) -> Answer:
    """Replay a recording's temp I/O on a directory and time it.

    Without a recording, --grid measures the directory by size and depth. No files are left behind,
    however the probe ends.

    Example: spillcast probe /mnt/nvme --like run.spill -o nvme.json

    Example: spillcast probe /mnt/nvme --grid -o nvme.json

    Example: spillcast probe --like run.spill --iolog spill.log
    """
    from spillcast.report.storage import iolog_page, storage_page
    from spillcast.text import shell_word
    from spillcast.workspace import check_output_file

    replay_options = {"--iolog": iolog, "--item": item, "--block": block, "--elapsed": elapsed_s}
    _check_source(like, replay_options, grid=grid, psync=psync)
    if directory is None and (iolog is None or output is not None):
        raise OptionMissing("give the directory to measure, such as /mnt/nvme")
    check_output_file(output)
    check_output_file(iolog, "--iolog")
    evidence = None if like is None else _evidence(like, block, item, elapsed_s)
    if iolog is not None and evidence is not None:
        from spillcast.recording import Recording
        from spillcast.storage.fio import write_iolog

        if not isinstance(evidence, Recording):
            text = "has only counts, no single operations to export"
            raise EvidenceUnsuited(text, where=evidence.path)
        written = write_iolog(evidence, iolog)
        if directory is None:
            return Answer(written.to_json, lambda: iolog_page(written))
    assert directory is not None
    storage = _measure(directory, evidence, budget, psync=psync)
    if output is not None:
        storage.save(output)
    run, target = (shell_word(path) for path in (like or "run.spill", output or directory))
    command = f"spillcast forecast {run} --to {target}"
    return Answer(storage.to_json, lambda: storage_page(storage, command))


def _check_source(
    like: Path | None, replay_options: Mapping[str, object], *, grid: bool, psync: bool
) -> None:
    """InputError unless a replay or a grid is requested, with only the options of that kind."""
    if grid == (like is not None):
        hint = "as in: spillcast probe /mnt/nvme --like run.spill -o nvme.json"
        raise OptionMissing("give either --like RECORDING or --grid", hint)
    if grid:
        refuse(replay_options, "is for a replay: give --like RECORDING")
    else:
        refuse({"--psync": psync}, "is for --grid: a replay makes the calls that were recorded")


def _measure(
    directory: Path, like: "Recording | Counts | None", budget: str, *, psync: bool
) -> "Storage":
    from spillcast.cli.progress import progress_bar
    from spillcast.storage.free_space import parse_budget
    from spillcast.storage.probe import probe as replay
    from spillcast.storage.probe import probe_grid

    parsed = parse_budget(budget)
    with progress_bar(f"probing {directory}") as show:
        if like is None:
            return probe_grid(directory, budget=parsed, psync=psync, on_progress=show)
        return replay(directory, like, budget=parsed, on_progress=show)


def _evidence(
    path: Path, block: str | None, item: int | None, elapsed_s: float | None
) -> "Recording | Counts":
    """The recording to replay, or the counts of temp I/O of a plan, a log or a report."""
    from dataclasses import replace

    from spillcast.evidence.open import find_evidence, read_figures
    from spillcast.evidence.oracle.collected import block_size
    from spillcast.evidence.oracle.trace_recording import recording_of_traces
    from spillcast.evidence.postgres.plan import plan_counts, read_plan
    from spillcast.forecast.question import Question
    from spillcast.recording import Recording

    question = Question(elapsed_s=elapsed_s, item=item, block=block)
    selection = replace(question.selection, timed=False)
    if path.exists():
        evidence = find_evidence([path])
        question.check(evidence)
        if evidence.traces:
            size = block_size(block, evidence.parameters, evidence.traces)
            return recording_of_traces(evidence.traces, size.bytes)
        if evidence.figures:
            return read_figures(evidence.figures, selection)
        if evidence.plans:
            return read_plan(path, selection)
    refuse({"--elapsed": elapsed_s}, "is for plans, logs and reports: give --like PLAN")
    recording = Recording.open(path)
    if recording.plan_alone is not None:
        return plan_counts(recording, selection)
    recording.need_io()
    return recording


STORAGE_HELP = "A storage.json, a recording, or catalogue:NAME."


def list_storages(
    pattern: Annotated[
        str | None, typer.Argument(help="Part of a name or description, such as gp3 or 'aws-i4*'.")
    ] = None,
) -> Answer:
    """List the storages of the catalogue.

    Example: spillcast storage list aws
    """
    from spillcast.report.storages import catalogue_document, catalogue_page
    from spillcast.storage.catalogue import matching

    listed = matching(pattern or "")
    return Answer(lambda: catalogue_document(listed), lambda: catalogue_page(listed))


def managed() -> Answer:
    """List managed databases: their storage, and whether temp files can move.

    Example: spillcast storage managed
    """
    from spillcast.report.storages import managed_document, managed_page
    from spillcast.storage.catalogue import managed_databases

    services = managed_databases()
    return Answer(lambda: managed_document(services), lambda: managed_page(services))


def show(
    storage: Annotated[str, typer.Argument(help=STORAGE_HELP)],
    op: Annotated[Literal["read", "write"] | None, option("--op", "Only reads, or writes.")] = None,
    size_bytes: Annotated[
        int | None,
        option("--size SIZE", "Histogram of this size, such as 256K.", parse=parse_bytes),
    ] = None,
) -> Answer:
    """Show a storage: latencies, servers and ceilings.

    Peaks of the histogram are named. Unmeasured sizes are estimated from measured ones.

    Example: spillcast storage show nvme.json --op read --size 256K
    """
    from spillcast.report.storage import show_page
    from spillcast.storage.description import described
    from spillcast.storage.target import resolve_storage

    shown = resolve_storage(storage)
    if size_bytes == 0:
        raise OptionInvalid("--size 0: no operation has this size", "write for example 256K")
    ops = _ops(storage, shown, op)
    groups = [group for name in ops for group in shown.of(name) if group.count]
    groups = [group for group in groups if size_bytes in (None, group.size_class_bytes)]
    return Answer(lambda: described(shown, groups), lambda: show_page(shown, ops, size_bytes))


def _ops(text: str, storage: "Storage", op: str | None) -> list[str]:
    """The ops to show. InputError if the storage has no figures for them."""
    ops = [name for name in OPS if any(g.count for g in storage.of(name))]
    if op is not None and op not in ops:
        others = f"it has figures for {ops[0]}s" if ops else None
        raise TargetIncomplete(f"has no figures for {op}s", others, text)
    if not ops:
        raise TargetIncomplete("has no figures at all", "probe again", text)
    return ops if op is None else [op]


def compare(
    storages: Annotated[list[str], typer.Argument(help=f"Two or more. {STORAGE_HELP}")],
) -> Answer:
    """Compare storages with the first of them, by op, size and pattern.

    Sizes that were not measured on a storage are estimated from its other sizes, and marked.

    Example: spillcast storage compare disk.json nvme.json
    """
    from spillcast.report.storages import comparison_page
    from spillcast.storage.description import compare as compare_storages
    from spillcast.storage.target import resolve_storage

    if len(storages) < 2:
        raise OptionMissing(
            f"{storages[0]}: there is nothing to compare it with", "name two storages or more"
        )
    compared = [resolve_storage(text) for text in storages]
    names = [storage.name for storage in compared]
    result = compare_storages(compared, names if len(set(names)) == len(names) else storages)
    return Answer(result.to_json, lambda: comparison_page(result))


storage = command_group("List, show and compare storages.")
storage.command("list", cls=AnswerCommand)(list_storages)
storage.command("managed", cls=AnswerCommand)(managed)
storage.command("show", cls=AnswerCommand)(show)
storage.command("compare", cls=AnswerCommand)(compare)


def emulate(
    mountpoint: Annotated[Path, typer.Argument(metavar="MOUNT", help="An empty directory.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run while it is mounted, after --.")
    ] = None,
    storage: Annotated[
        str | None,
        option("--storage STORAGE", "A storage.json, a recording, catalogue:NAME, latency:8ms."),
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
        Path | None, option("--backing DIR", "Directory that stores and keeps the files.")
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
        files = backing or stack.enter_context(workspace())
        with progress_bar(f"mounting {mountpoint}"):
            mount = stack.enter_context(emulated(model, mountpoint, files, page_cache=page_cache))
        end = f"{command[0]} ends it" if command else "Ctrl-C ends it"
        text = mounted_text(mount, temporary=backing is None, end=end)
        status = None
        try:
            print(text, file=sys.stderr, flush=True)
            status = _serve(mount, command)
        except KeyboardInterrupt:
            if command:
                raise
        # A second Ctrl-C would interrupt the unmount and lose the result.
        interrupted_once()
        result = mount.result()
    return Answer(
        lambda: result.to_json() | {"command": command or None, "exit_status": status},
        lambda: emulation_page(result),
        status or 0,
    )


def _serve(mount: "Mount", command: list[str] | None) -> int | None:
    """Serve until the command ends, or until the unmount; returns the command's exit status."""
    from spillcast.cli.progress import live_line
    from spillcast.report.storage import mount_status
    from spillcast.storage.emulation import run_command, wait_until_unmounted

    # A command has the terminal to itself.
    with live_line(show=not command) as write:
        last = mount.result()

        def tick() -> None:
            nonlocal last
            now = mount.result()
            write(mount_status(now, last))
            last = now

        if command:
            return run_command(command, tick)
        wait_until_unmounted(mount, tick)
        return None


def _parse_unit(text: str, name: str) -> int:
    """Bytes of a block or a line. OptionInvalid for 0, and from 4 GiB on."""
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
            "--size SIZE", "Size of the cache (default: only the miss curve).", parse=parse_bytes
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
        str | None,
        option("--flash RATE", "9G/s, or 9G/s,3.4G/s for reads and writes, or a storage."),
    ] = None,
    disk: Annotated[
        str | None, option("--disk RATE", "Rate of the disk behind the cache, in the same forms.")
    ] = None,
    from_flash: Annotated[
        float, option("--from-flash SHARE", "Share of hits that flash serves.", min=0, max=1)
    ] = 1.0,
    runs: Annotated[
        int, option("--runs N", "Number of times that the I/O is repeated.", min=1, max=100)
    ] = 2,
    cells: Annotated[int, option("--cells N", "Storage servers that divide the cache.", min=1)] = 1,
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

    The first run fills the cache, the second uses it; the curve is for the last run.

    Example: spillcast cache scan.trc --size 90G --policy keep --keep 115825

    Example: spillcast cache run.spill --size 2G --temp-writes

    Example: spillcast cache trace.oracleGeneral --error 0.2 --runs 1
    """
    from spillcast.cache.evidence import BLOCK_BYTES, read_requests
    from spillcast.cache.simulation import CacheOptions, cache_result, curve, simulate
    from spillcast.cli.progress import progress_bar
    from spillcast.report.cache import cache_page

    options = None
    if size_bytes is None:
        refuse({"--keep": keep, "--flash": flash, "--disk": disk}, "is for one cache: give --size")
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
    with progress_bar("simulating the cache", "requests") as bar:
        simulated = None
        if options is not None:
            simulated = simulate(requests, options, devices, cells=cells, on_progress=bar)
    with progress_bar("computing the miss curve", "requests") as bar:
        miss_curve = curve(
            requests,
            rate=sample,
            error_points=error,
            temp_writes=temp_writes,
            runs=runs,
            on_progress=bar,
        )
    result = cache_result(simulated, miss_curve, requests.notes)
    return Answer(result.to_json, lambda: cache_page(result, miss_curve, cells=cells))


def _devices(flash: str | None, disk: str | None, operation_bytes: int) -> "Devices | None":
    from spillcast.storage.target import device

    if flash is None and disk is None:
        return None
    if flash is None or disk is None:
        raise OptionMissing(
            "flash and disk are read at the same time: give both --flash and --disk",
            "for example --flash 9G/s,3.4G/s --disk 4.26G/s",
        )
    return device(flash, "--flash", operation_bytes), device(disk, "--disk", operation_bytes)
