"""Threads that share cores: while one waits for I/O, the others go on, as far as there are cores.

Each is in turn on one of m cores for the time c and in I/O for the time L. That is the machine
repairman, a closed queueing network; with one thread it is N * (c + L), with a core for each of P
threads N * (c + L) / P, and with no latency N * c / min(P, m).
"""

from math import floor


def repairman_s(threads: float, cores: int, cpu_s: float, latency_s: float) -> float:
    """Mean time from one operation to the next, whichever thread does it.

    Between whole numbers of threads it is in proportion.
    """
    least = floor(threads)
    below_s = _whole_s(least, cores, cpu_s, latency_s)
    if threads == least:
        return below_s
    above_s = _whole_s(least + 1, cores, cpu_s, latency_s)
    return below_s + (threads - least) * (above_s - below_s)


def _whole_s(threads: int, cores: int, cpu_s: float, latency_s: float) -> float:
    if threads <= cores or cpu_s <= 0:
        return (cpu_s + latency_s) / threads
    if latency_s <= 0:
        return cpu_s / cores
    # Odds of k threads on the cores or waiting for one, against none.
    odds = [1.0]
    for k in range(1, threads + 1):
        odds.append(odds[-1] * (threads - k + 1) * cpu_s / (min(k, cores) * latency_s))
    on_cores = sum(weight * min(k, cores) for k, weight in enumerate(odds)) / sum(odds)
    return cpu_s / on_cores
