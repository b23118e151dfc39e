"""Reports and views of Oracle as figures of one run."""

from spillcast.recording.meta import ObservedEngine

#: The engine of all runs.
ORACLE = ObservedEngine("oracle")
