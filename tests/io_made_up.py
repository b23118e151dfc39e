"""Made-up I/O for tests: requests for lines, files in libCacheSim's format, Zipf with scans."""

from collections import namedtuple

import numpy as np
import pyarrow as pa

from spillcast import _core

LINE = 4096
CLASSES = _core.CacheRequests.classes()
COLUMNS = ("time_s", "file", "offset", "bytes", "object", "query", "class", "ends_query")
RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])

Access = namedtuple("Access", "key time_s object query cls ends_query")


def access(key, time_s=0, object_=0, query=0, cls="read", ends_query=False):
    return Access(key, time_s, object_, query, cls, ends_query)


def requests(accesses):
    """Accesses to whole lines of a file, in the format of the core."""
    rows = [
        (a.time_s, 0, a.key * LINE, LINE, a.object, a.query, CLASSES.index(a.cls), a.ends_query)
        for a in accesses
    ]
    columns = [pa.array([int(row[i]) for row in rows], pa.int64()) for i in range(len(COLUMNS))]
    return _core.CacheRequests.rows(pa.record_batch(columns, list(COLUMNS)), LINE)


def of_keys(keys):
    return requests([access(key) for key in keys])


def hits(outcome, run=0):
    """Hits of a run by object and class."""
    return {(a["object"], a["class"]): a["hits"] for a in outcome["runs"][run]["accounts"]}


def all_hits(outcome, run=0):
    return sum(hits(outcome, run).values())


def zipf_with_scans(count, lines, *, seed, exponent=0.9):
    """Ids from 1: Zipf over ``lines``, a fifth of it replaced by scans of lines used once."""
    rng = np.random.default_rng(seed)
    weight = np.cumsum(1 / np.arange(1, lines + 1) ** exponent)
    ids = rng.permutation(lines)[np.searchsorted(weight / weight[-1], rng.random(count))]
    scan = np.arange(count) % (count // 10) >= count * 8 // 100
    ids[scan] = np.arange(scan.sum()) + lines
    return ids.astype(np.uint64) + 1


def oracle_general(path, ids, size=LINE):
    """Writes ids as a file in libCacheSim's format."""
    records = np.zeros(len(ids), RECORD)
    records["time"] = np.arange(len(ids)) // 1000
    records["id"], records["size"], records["next"] = ids, size, -2
    records.tofile(path)
    return path
