"""Active Session History: exports of any shape are read, and profiled without ASH's bias."""
