"""Reports and views of Oracle as figures of one run."""

from spillcast.recording.meta import ObservedEngine

#: The engine of all runs.
ORACLE = ObservedEngine("oracle")
#: The beginning of a query that counts the samples of ASH by event.
SAMPLE_COUNTS = (
    r"\bselect\b(?=[^;]{,4000}\bcount\()(?=[^;]{,4000}active_sess(?:ion)?_hist)"
    r"(?=[^;]{,4000}\bgroup\s+by\b)"
)
