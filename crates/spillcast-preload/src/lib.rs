//! Loaded with LD_PRELOAD: times the file I/O of the program it is loaded into.
