"""Reports and views of Oracle as figures of one run."""

from spillcast.recording.meta import ObservedEngine

#: The engine of all runs.
ORACLE = ObservedEngine("oracle")
#: Where a query counts the samples of ASH in groups.
SAMPLE_COUNTS = r"\bcount\((?=[^;]{,4000}active_sess(?:ion)?_hist)(?=[^;]{,4000}\bgroup\s+by\b)"
