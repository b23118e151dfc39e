"""Questions with a known true answer, without any disturbance."""

import json
import math
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from slow_runs import MS, US, Latency, Work, recorded, spill

from ash_files import execution, write_ash
from oracle_files import HEADER, READ, WRITE, blocks
from spillcast.evidence.postgres.plan import counts_of_plan
from spillcast.forecast.question import Question
from spillcast.storage import Group, Storage
from spillcast.storage.source import PROBE
from statement_files import VERSIONS, export, row

KIB = 1 << 10


@dataclass(frozen=True)
class Situation:
    """The evidence, the question, the truth, and what weakens an answer.

    Without ``truth_s`` no number can be right: the answer must be a refusal, or a warning with one
    of the codes in ``causes``. ``says`` is a pattern of refusals.
    """

    name: str
    evidence: Any
    target: Any
    truth_s: float | None
    causes: frozenset[str] = frozenset()
    says: str = "^$"
    question: Question = field(default_factory=Question)

    @property
    def troubled(self):
        return bool(self.causes) or self.truth_s is None


def log_uniform(draws, low, high):
    return math.exp(draws.uniform(math.log(low), math.log(high)))


def some_latency(draws):
    read_ns = log_uniform(draws, 30 * US, 8 * MS)
    return Latency(read_ns, read_ns * draws.uniform(0.4, 2.0), draws.uniform(0.1, 1.3))


def some_work(draws, *, threads=1, turns=False, cpus=None):
    size = draws.choice((8, 64, 256)) * KIB
    cpu_ns = log_uniform(draws, 50 * US, 2 * MS)
    lists = [
        spill(draws, operations=600 // threads, size=size, cpu_ns=cpu_ns) for _ in range(threads)
    ]
    return Work(lists, cpus or draws.choice((2, 4)), turns)


def probed(latency, work, draws, *, sizes=None, depths=(1,), pattern="recorded"):
    """The storage as a probe measures it, with the scatter of its operations."""
    sizes = sizes or (work.threads[0][0].bytes,)
    groups = []
    for op, each, depth in product(("read", "write"), sizes, depths):
        at_once = max(1.0, depth / latency.servers)
        took_ns = [round(at_once * latency.draw(draws, op)) for _ in range(1000)]
        means = [sum(took_ns[at : at + 50]) // 50 for at in range(0, 1000, 50)]
        middles = sorted(took_ns)[10::20]
        groups.append(
            Group(op, each, depth, 1000, each * 1000, sum(took_ns), middles, [20] * 50,
                  [50] * 20, means, pattern=pattern)
        )  # fmt: skip
    return Storage("target", PROBE, groups)


def requested(work, target, draws):
    """A target in one of the forms in which people name one, and its latencies."""
    if draws.random() < 0.3:
        latency_ns = round(target.read_ns)
        return f"latency:{latency_ns}ns", Latency(latency_ns, latency_ns)
    return probed(target, work, draws), target


def _recording(folder, draws, name, work):
    source, destination = some_latency(draws), some_latency(draws)
    elapsed_ns, rows = work.run(source, draws)
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=work.cpus)
    target, destination = requested(work, destination, draws)
    truth_ns, _ = work.another_time(draws).run(destination, draws)
    return Situation(name, run, target, truth_ns / 1e9)


def single_thread(folder, draws):
    return _recording(folder, draws, "one thread", some_work(draws))


def several_threads(folder, draws):
    work = some_work(draws, threads=draws.choice((2, 3, 4)))
    return _recording(folder, draws, "several threads", work)


def threads_in_turn(folder, draws):
    work = some_work(draws, threads=draws.choice((2, 3)), turns=True)
    return _recording(folder, draws, "threads in turn", work)


def a_storage_that_serves_one_at_a_time(folder, draws):
    """Threads that overlapped wait for each other, as a probe of both depths shows."""
    threads, (source, destination) = draws.choice((2, 4)), (some_latency(draws) for _ in range(2))
    work, destination = some_work(draws, threads=threads), replace(destination, servers=1)
    elapsed_ns, rows = work.run(source, draws)
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=work.cpus)
    if draws.random() < 0.5:
        target = replace(probed(destination, work, draws), servers=1)
    else:
        target = probed(destination, work, draws, depths=(1, 2, 4), pattern="random")
    truth_ns, _ = work.another_time(draws).run(destination, draws)
    return Situation("one server", run, target, truth_ns / 1e9)


def a_factor(folder, draws):
    """A storage that is faster by a factor: every operation takes that part of its time."""
    work, source, factor = some_work(draws), some_latency(draws), draws.choice((0.5, 2, 10))
    elapsed_ns, rows = work.run(source, draws)
    run = recorded(folder / "run.spill", rows, elapsed_ns, cpus=work.cpus)
    saved_ns = sum(row["elapsed_ns"] for row in rows) * (1 - 1 / factor)
    return Situation("a factor", run, f"factor:{factor}", (elapsed_ns - saved_ns) / 1e9)


def a_part_of_known_length(folder, draws):
    """The first part of a uniform run whose whole time is given."""
    source, destination = some_latency(draws), some_latency(draws)
    works = [some_work(draws)]
    size, cpu_ns = works[0].threads[0][0].bytes, works[0].threads[0][0].cpu_ns
    works = [
        Work([spill(draws, operations=300, size=size, cpu_ns=cpu_ns)], works[0].cpus)
        for _ in range(draws.choice((3, 6)))
    ]
    runs = [work.run(source, draws) for work in works]
    run = recorded(
        folder / "run.spill", runs[0][1], runs[0][0], cpus=works[0].cpus,
        parts={"ended_by": "duration"},
    )  # fmt: skip
    truth_ns = sum(work.another_time(draws).run(destination, draws)[0] for work in works)
    question = Question(elapsed_s=sum(ns for ns, _ in runs) / 1e9)
    target = probed(destination, works[0], draws)
    return Situation("a part, with --elapsed", run, target, truth_ns / 1e9, question=question)


def plan_of(read_ms, written_ms, count, whole_ms, **node):
    """The document of EXPLAIN (ANALYZE, BUFFERS) of a sort."""
    node = {
        "Node Type": "Sort", "Actual Rows": 9.0, "Actual Loops": 1,
        "Temp Read Blocks": count, "Temp Written Blocks": count,
        "Temp I/O Read Time": read_ms, "Temp I/O Write Time": written_ms, **node,
    }  # fmt: skip
    return {"Plan": node, "Execution Time": whole_ms}


def counted(draws, latency=None):
    """Blocks, CPU time in ms, and the latency in ms on each of two storages."""
    source_ms, target_ms = (log_uniform(draws, 0.05, 8) for _ in range(2))
    count = draws.randrange(1000, 20_000)
    return count, count * log_uniform(draws, 0.05, 2), latency or source_ms, target_ms


def a_plan(folder, draws):
    count, cpu_ms, source_ms, target_ms = counted(draws)
    plan = plan_of(count * source_ms, count * source_ms, count, cpu_ms + 2 * count * source_ms)
    path = folder / "plan.json"
    path.write_text(json.dumps([plan]))
    given = [path] if draws.random() < 0.5 else counts_of_plan(plan)
    truth_s = (cpu_ms + 2 * count * target_ms) / 1000
    return Situation("a plan", given, f"latency:{target_ms:.6f}ms", truth_s)


def a_statement(folder, draws):
    """The counters of a single-process query, beside others that spill nothing."""
    count, cpu_ms, source_ms, target_ms = counted(draws)
    path = export(
        folder / "statements.csv", draws.choice(VERSIONS[2:]),
        row(calls=draws.choice((1, 7)), mean_ms=cpu_ms + count * source_ms,
            temp_ms=count * source_ms, blocks=count, max_parallel_workers_per_gather=0),
        row(77, "alter table big add x int", calls=1, temp_ms=0, blocks=0,
            max_parallel_workers_per_gather=0),
    )  # fmt: skip
    truth_s = (cpu_ms + count // 3 * 3 * target_ms) / 1000
    return Situation("a statement", [path], f"latency:{target_ms:.6f}ms", truth_s)


def trace(path, latencies_us, gaps_us, *, first=0):
    """A trace of a read or a write after each stretch of CPU time."""
    tim, lines = 1_000_000, []
    for number, (took_us, gap_us) in enumerate(zip(latencies_us, gaps_us, strict=True), first):
        tim += gap_us + took_us
        event = READ if number % 2 else WRITE
        lines.append(f"WAIT #7: nam='{event}' ela= {took_us} {blocks(16)} obj#=5 tim={tim}")
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return path


def drawn_us(draws, mean_us, sigma, count):
    return [round(mean_us * draws.lognormvariate(-(sigma**2) / 2, sigma)) for _ in range(count)]


def a_trace(folder, draws):
    """A whole trace; the target is a stated latency, or a trace of the start of the run there."""
    count, source_us, target_us = 3000, log_uniform(draws, 200, 9000), log_uniform(draws, 100, 9000)
    gaps = drawn_us(draws, log_uniform(draws, 50, 2000), 0.5, count)
    source, destination = (drawn_us(draws, us, 0.4, count) for us in (source_us, target_us))
    path = trace(folder / "here.trc", source, gaps)
    if draws.random() < 0.5:
        target = trace(folder / "there.trc", destination[:1500], gaps[:1500])
        return Situation("two traces", [path], str(target), sum(destination + gaps) / 1e6)
    truth_s = (sum(gaps) + count * round(target_us)) / 1e6
    return Situation("a trace", [path], f"latency:{round(target_us)}us", truth_s)


def samples(draws, *, seconds, source_us, gap_us, exec_id=16_777_216, after_s=0):
    """ASH rows of a session that alternates between CPU and reads; and the number of its reads."""
    whole_us, at_us, count, sampled = seconds * 1_000_000, 0, 0, execution(
        seconds, after_s=after_s, sql_exec_id=exec_id
    )  # fmt: skip
    for item in sampled:
        item |= {"SESSION_STATE": "ON CPU", "EVENT": "", "TIME_WAITED": 0}
    while at_us < whole_us:
        took_us = round(source_us * draws.lognormvariate(-0.045, 0.3))
        begin_us = at_us + round(gap_us * draws.lognormvariate(-0.125, 0.5))
        at_us, count = begin_us + took_us, count + 1
        second = -(-begin_us // 1_000_000)
        if second < seconds and second * 1_000_000 < at_us:
            sampled[second] |= {"SESSION_STATE": "WAITING", "EVENT": READ, "TIME_WAITED": took_us}
    return sampled, count


def an_ash_export(folder, draws):
    seconds, source_us = draws.randrange(200, 900), log_uniform(draws, 1000, 12_000)
    gap_us = source_us * draws.uniform(0.1, 2)
    rows, count = samples(draws, seconds=seconds, source_us=source_us, gap_us=gap_us)
    target_us = log_uniform(draws, 200, 12_000)
    truth_s = seconds - count * (source_us - target_us) / 1e6
    path = write_ash(folder / "ash.csv", rows)
    return Situation("an ASH export", [path], f"latency:{round(target_us)}us", truth_s)


UNTROUBLED = (
    single_thread, several_threads, a_storage_that_serves_one_at_a_time, threads_in_turn, a_factor,
    a_part_of_known_length, a_plan, a_statement, a_trace, an_ash_export,
)  # fmt: skip
