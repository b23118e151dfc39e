"""How the temp I/O of several threads adds to the elapsed time."""
