"""Questions with a hidden disturbance that makes a plain answer wrong."""

import json
from dataclasses import replace

from situations import (
    KIB,
    Situation,
    counted,
    drawn_us,
    log_uniform,
    plan_of,
    probed,
    samples,
    some_latency,
    some_work,
    trace,
)
from slow_runs import MS, US, Latency, cold_reads, later, recorded

from ash_files import write_ash
from evidence import change
from oracle_files import READ, blocks, write_trace
from spillcast.forecast.question import Question
from spillcast.recording.meta import Machine, Memory
from spillcast.recording.observed import TempPlace
from spillcast.storage import Group, Storage
from spillcast.storage.source import GRID
from statement_files import VERSIONS, export, row


def _both(draws, **some):
    return some_work(draws, **some), some_latency(draws), some_latency(draws)


def threads_not_seen_to_wait(folder, draws):
    """Threads that take turns, without a record of who woke whom."""
    work, source, destination = _both(draws, threads=2, turns=True)
    elapsed_ns, rows = work.run(source, draws)
    rows = [row for row in rows if "woken_by" not in row]
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=work.cpus)
    truth_s = work.run(destination, draws)[0] / 1e9
    target = probed(destination, work, draws)
    return Situation("wakings not seen", run, target, truth_s, frozenset({"threads"}))


def a_part_of_unknown_length(folder, draws):
    """The first half; the question is about the whole."""
    work, source, destination = _both(draws)
    _elapsed_ns, rows = work.run(source, draws)
    half = rows[: len(rows) // 2]
    end_ns = half[-1]["start_ns"] + half[-1]["elapsed_ns"]
    because = draws.choice(("duration", "interrupt"))
    run = recorded(folder / "run.spill", half, end_ns, cpus=2, parts={"ended_by": because})
    truth_s = work.run(destination, draws)[0] / 1e9
    target = probed(destination, work, draws)
    return Situation("a part alone", run, target, truth_s, frozenset({"part-only"}))


def a_part_before_it_changes(folder, draws):
    """The part that writes, with the time of a whole that also reads everything."""
    work, source, destination = _both(draws)
    elapsed_ns, rows = work.run(source, draws)
    part = rows[: round(len(rows) * draws.uniform(0.1, 0.45))]
    end_ns = part[-1]["start_ns"] + part[-1]["elapsed_ns"]
    run = recorded(folder / "run.spill", part, end_ns, cpus=2, parts={"ended_by": "duration"})
    truth_s = work.run(destination, draws)[0] / 1e9
    question = Question(elapsed_s=elapsed_ns / 1e9)
    causes, says = frozenset({"part", "unread"}), "hardly any temp data"
    target = probed(destination, work, draws)
    return Situation("a part unlike the rest", run, target, truth_s, causes, says, question)


def lost_reports(folder, draws):
    work, source, destination = _both(draws)
    elapsed_ns, rows = work.run(source, draws)
    seen = [row for row in rows if draws.random() < draws.choice((0.5, 0.9, 0.99))]
    lost = 2 * (len(rows) - len(seen))
    run = recorded(folder / "run.spill", seen, elapsed_ns, cpus=2, lost=lost)
    truth_s = work.run(destination, draws)[0] / 1e9
    target = probed(destination, work, draws)
    says = "capture events lost"
    return Situation("lost reports", run, target, truth_s, frozenset({"unseen"}), says)


def a_busy_machine(folder, draws):
    """Other programs used the CPUs for a while, and will not in the next run."""
    work, source, destination = _both(draws)
    elapsed_ns, rows = work.run(source, draws)
    stolen_ns = round(elapsed_ns * draws.uniform(0.1, 0.5))
    run = recorded(
        folder / "run.spill", later(rows, stolen_ns), elapsed_ns + stolen_ns, cpus=1,
        run_queue_delay_s=stolen_ns / 1e9, run_queue_others_s=stolen_ns / 1e9,
    )  # fmt: skip
    truth_s = work.run(destination, draws)[0] / 1e9
    target = probed(destination, work, draws)
    return Situation("a busy machine", run, target, truth_s, frozenset({"run-queue"}))


def cold_data(folder, draws):
    """Data came from storage, and is in memory for the next run."""
    work, source, destination = _both(draws)
    elapsed_ns, rows = work.run(source, draws)
    count = round(elapsed_ns * draws.uniform(0.2, 1.5) / (4 * MS))
    cold, cold_ns = cold_reads(count, 8 * KIB, 4 * MS)
    run = recorded(
        folder / "run.spill", [*cold, *later(rows, cold_ns)], elapsed_ns + cold_ns, cpus=2
    )
    truth_s = work.run(destination, draws)[0] / 1e9
    target = probed(destination, work, draws)
    return Situation("cold data", run, target, truth_s, frozenset({"cold-data"}))


def no_room(folder, draws):
    work, source, destination = _both(draws)
    elapsed_ns, rows = work.run(source, draws)
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=2)
    held = sum(row["bytes"] for row in rows if row["op"] == "write")
    free = round(held * draws.uniform(0, 0.99))
    facts = {"directory": "/mnt", "free_bytes": free}
    if draws.random() < 0.5:
        facts = {"directory": "/mnt", "free_bytes": 1 << 50, "quota_free_bytes": free,
                 "quota_of": "the user"}  # fmt: skip
    target = replace(probed(destination, work, draws), facts=facts)
    return Situation("no room", run, target, None, frozenset({"no-space"}))


def behind_a_network(folder, draws):
    """During the query, others use the storage more than during its measurement."""
    work, source, destination = _both(draws)
    elapsed_ns, rows = work.run(source, draws)
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=2)
    facts = {"directory": "/mnt", "filesystem": "nfs4", "network": True}
    truth_s = work.run(Latency(4 * destination.read_ns, 4 * destination.write_ns), draws)[0] / 1e9
    target = replace(probed(destination, work, draws), facts=facts)
    return Situation("a network", run, target, truth_s, frozenset({"network"}))


def recorded_behind_a_network(folder, draws):
    """Waits were long because of other users, so a factor does not scale the storage alone."""
    work, origin, _ = _both(draws)
    busy_ns, rows = work.run(Latency(4 * origin.read_ns, 4 * origin.write_ns), draws)
    run = recorded(folder / "run.spill", rows, busy_ns, cpus=2)
    change(run, temp_places=[TempPlace("/t", "0:50", "nfs4", True, 1 << 30)])
    truth_s = work.run(Latency(origin.read_ns / 2, origin.write_ns / 2), draws)[0] / 1e9
    causes = frozenset({"source-network"})
    return Situation("recorded on network storage", run, "factor:2", truth_s, causes)


def two_devices(folder, draws):
    """One of two devices with temp files is replaced, but the target is used for both."""
    work, source, destination = _both(draws)
    elapsed_ns, rows = work.run(source, draws)
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=2)
    places = [TempPlace(f"/t/{name}", f"8:{name}", "ext4", False, 1 << 30) for name in (1, 2)]
    change(run, temp_places=places)
    target_ns = work.run(destination, draws)[0]
    truth_s = (elapsed_ns + target_ns) / 2e9
    target = probed(destination, work, draws)
    return Situation("two devices", run, target, truth_s, frozenset({"devices"}))


def sizes_never_measured(folder, draws):
    """A storage whose cost grows with size in steps, measured only at small sizes."""
    work, source, destination = _both(draws)
    elapsed_ns, rows = work.run(source, draws)
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=2)
    size = work.threads[0][0].bytes
    target = probed(destination, work, draws, sizes=(size // 16, size // 8))
    factor = draws.uniform(1, 8)
    dear = Latency(factor * destination.read_ns, factor * destination.write_ns)
    causes = frozenset({"extrapolated"})
    truth_s = work.run(dear, draws)[0] / 1e9
    return Situation("sizes never measured", run, target, truth_s, causes)


def a_page_cache(folder, draws):
    """A spill that fits in memory takes the same time on a looked-up storage."""
    work, _, target = _both(draws)
    target = Latency(*(max(ns, 100 * US) for ns in (target.read_ns, target.write_ns)))
    elapsed_ns, rows = work.run(Latency(6 * US, 8 * US, 0.1), draws)
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=2)
    change(run, machine=Machine(cpus=2, memory_available_bytes=20 << 30), memory=Memory())
    sizes = [4 * KIB << power for power in range(8)]
    groups = [
        Group(op, size, 1, 1, size, round(ns), [round(ns)], [1], [1], [round(ns)])
        for op, ns in (("read", target.read_ns), ("write", target.write_ns))
        for size in sizes
    ]
    disk, causes = Storage("disk", GRID, groups), frozenset({"page-cache-answers"})
    return Situation("a page cache", run, disk, elapsed_ns / 1e9, causes)


def a_parallel_statement(folder, draws):
    """Times are sums over processes; servers before 18 do not count parallel workers."""
    count, cpu_ms, source_ms, target_ms = counted(draws)
    processes, version = draws.choice((2, 3)), draws.choice(VERSIONS[2:])
    path = export(
        folder / "statements.csv", version,
        row(calls=3, mean_ms=cpu_ms + count * source_ms, temp_ms=processes * count * source_ms,
            blocks=processes * count, workers=processes - 1),
    )  # fmt: skip
    truth_s = (cpu_ms + processes * count // 3 * 3 / processes * target_ms) / 1000
    causes, says = frozenset({"processes"}), "processes"
    target = f"latency:{target_ms:.6f}ms"
    return Situation("a parallel statement", [path], target, truth_s, causes, says)


def several_statements(folder, draws):
    count, cpu_ms, source_ms, _ = counted(draws)
    rows = [
        row(queryid, calls=2, mean_ms=cpu_ms + count * source_ms, temp_ms=count * source_ms,
            blocks=count)
        for queryid in (11, 22)
    ]  # fmt: skip
    path = export(folder / "statements.csv", draws.choice(VERSIONS), *rows)
    return Situation("several statements", [path], "latency:1ms", None, says="--queryid")


def counts_without_times(folder, draws):
    plan = plan_of(0.0, 0.0, 5000, 4000.0)
    path = folder / "plan.json"
    path.write_text(json.dumps([plan]))
    target = draws.choice(("latency:1ms", "factor:3", "catalogue:aws-gp3"))
    causes, says = frozenset({"time-unknown"}), "track_io_timing"
    return Situation("counts without times", [path], target, None, causes, says)


def two_executions(folder, draws):
    first, _ = samples(draws, seconds=300, source_us=5000, gap_us=2000)
    second, _ = samples(draws, seconds=80, source_us=5000, gap_us=2000, exec_id=7, after_s=3600)
    path = write_ash(folder / "ash.csv", first, second)
    return Situation(
        "two executions", [path], "latency:1ms", None, says="(?s)2 executions.*--exec-id"
    )


def a_block_of_another_size(folder, draws):
    """Blocks are 16 KiB, which nothing states; latency grows with size on both storages."""
    count, source_us = 2000, round(log_uniform(draws, 500, 5000))
    waits = [(READ, source_us, blocks(31)) for _ in range(count)]
    path = write_trace(folder / "here.trc", waits)
    us_per_kib = draws.uniform(0.5, 4)
    groups = [
        Group("read", kib * KIB, 1, 1, kib * KIB, ns := round(us_per_kib * kib * US), [ns], [1],
              [1], [ns])
        for kib in (8, 31 * 8, 31 * 16)
    ]  # fmt: skip
    target = folder / "there.json"
    Storage("there", GRID, groups).save(target)
    truth_s = count * us_per_kib * 31 * 16 / 1e6
    causes = frozenset({"block-assumed"})
    return Situation("an unknown block size", [path], str(target), truth_s, causes)


def a_damaged_trace(folder, draws):
    """Some of its lines are truncated."""
    count = 2000
    source = drawn_us(draws, 3000, 0.3, count)
    path = trace(folder / "here.trc", source, [500] * count)
    lines = path.read_text().splitlines()
    for at in draws.sample(range(10, len(lines)), 300):
        lines[at] = lines[at][: draws.randrange(10, 40)]
    path.write_text("\n".join(lines) + "\n")
    truth_s = count * (500 + 200) / 1e6
    causes, says = frozenset({"damaged"}), "damaged"
    return Situation("a damaged trace", [path], "latency:200us", truth_s, causes, says)


def a_slip_of_the_hand(folder, draws):
    """A word whose meaning differs from what was intended."""
    work = some_work(draws)
    elapsed_ns, rows = work.run(some_latency(draws), draws)
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=2)
    word, says = draws.choice(
        (
            ("latency:150", "150us or 150ms"),
            ("latency:0.5", "0.5ms or 0.5s"),
            ("latency:1,5ms", "is not a duration"),
            ("aws-gp3", "do you mean catalogue:aws-gp3"),
            ("catalogue:aws-gp4", "aws-gp3"),
            ("latancy:1ms", "do you mean latency:1ms"),
            ("150us", "do you mean latency:150us"),
            ("factor:0", "a number above 0"),
            ("factor:60x", "a number above 0"),
            ("factor:-2", "a number above 0"),
            ("/no/such/folder", "no such file or directory"),
            (str(folder / "tmfps"), "no such file or directory"),
            ("tmfps", "do you mean tmpfs"),
        )
    )
    return Situation(f"'{word}'", run, word, None, says=says)


TROUBLED = (
    threads_not_seen_to_wait, a_part_of_unknown_length, a_part_before_it_changes, lost_reports,
    a_busy_machine, cold_data, no_room, behind_a_network, recorded_behind_a_network, two_devices,
    sizes_never_measured, a_page_cache, a_parallel_statement, several_statements,
    counts_without_times, two_executions, a_block_of_another_size, a_damaged_trace,
    a_slip_of_the_hand, a_slip_of_the_hand,
)  # fmt: skip
