"""Reports and views of Oracle as figures of one run."""

from spillcast.recording.meta import ObservedEngine

#: Whose run the figures are of.
ORACLE = ObservedEngine("oracle")
