"""What forecasts take for granted and no command can tell; each with its reason."""

# How sure a forecast is.
#: A recording of less than this share of the query is one of a part: runs differ by as much.
WHOLE = 0.95
#: Another run of a query takes no less than so much of the one that was seen; else the unit is
#: wrong.
SHORTER = 0.5
#: Temp I/O that takes so many times the whole elapsed time is not that of the same run.
IO_MAX = 1.25
#: In a part that was not looked at, an op may take so much less or more of the time than it was
#: seen to: anything from nothing to twice as much.
UNSEEN = 1.0
#: Where less than this share of what was written was read again, reading is yet to come: an
#: engine reads what it spills once or more often.
UNREAD = 0.5
#: Where reading is yet to come, a smaller share of the query tells nothing: no forecast from less
#: than a fifth was ever verified.
SEEN_MIN = 0.15
#: Two models of threads may be wrong by so much (standard deviation) of the way between them:
#: nine in ten times less than half of it.
MODELS_APART = 0.25
#: A replay beside a program that had half of the CPUs took a fifth longer: latencies may be off by
#: so much of the share that others had.
DISTURBED_ERROR = 0.4
#: A longer stretch of CPU time without a call, beside temp I/O of others, may be spinning: a wait.
BURST_MIN_S = 0.5
#: An interval whose ends are so many times apart is no answer: it chooses no storage, unless it
#: lies below the elapsed time as it is.
USELESS = 10.0
#: From Oracle's evidence, of which no verified forecasts are kept: the spread from one run to
#: another of the time that has nothing to do with the boosted events.
TRACE_REST_SPREAD = 0.05
#: Traces in which so much of what is done per boosted operation is alike are of the same work.
SAME_WORK = 0.75
#: Of what observing a temp call costs, the share between the two times that it is given: programs
#: and tracepoints look at the clock in their midst. And how far off that may be.
INSIDE = 0.5
INSIDE_ERROR = 0.25
#: What observing costs a query may be off by so much of itself: bursts of calls meet warmer caches,
#: and measured again minutes later they differ by as much.
OBSERVED_ERROR = 0.5
#: Recording is never taken to be more than this share of the time outside temp I/O.
OVERHEAD_MAX = 0.5
#: Where threads did so much of something else in the time of temp I/O that is under way by itself,
#: they do not wait for it, and how long they would wait elsewhere is not known.
BUSY_MAX = 0.1
#: What a run's own waits of different length tell may be off by so much of itself: longer waits may
#: come before other work.
WITHIN_RUN_SPREAD = 0.3
#: Where a wait is longer or shorter than any that was recorded, CPU time between two operations may
#: move by such a share of itself: what queries of TPC-H moved by.
WITHIN_RUN_BEYOND = 0.2

#: Of the memory that a page cache may have, the share that may be dirty before writers wait: the
#: kernel's vm.dirty_ratio as it comes.
DIRTY_SHARE = 0.2
#: Which pages memory keeps is not exactly those used last: of what a page cache saves, where it
#: holds half of it, so much may be wrong (standard deviation).
PAGE_CACHE_ERROR = 0.1

# What is worth a warning: from there on a reader would decide otherwise.
#: Share of the time outside temp I/O from which storage for temp files can help little.
LITTLE = 0.9
#: Share of the elapsed time below which more or less of it is about nothing.
NEGLIGIBLE = 0.001
#: Share of the I/O that was not measured, or only with other sizes.
SHARE_REPORTED = 0.05
#: Share of the elapsed time for which the query waited for CPUs that others had.
BUSY_REPORTED = 0.05
#: Share of the elapsed time in which a CPU quota held threads back.
THROTTLED_REPORTED = 0.02
#: Share of the elapsed time in cold reads of data files from which they are a term of their own.
COLD_SHOWN = 0.01
#: Share of the elapsed time in calls of which the target tells nothing.
CHANGES_REPORTED = 0.01
#: Latency ratio from which a small error of the recording becomes a large one of the forecast.
AMPLIFIED = 20.0
#: Share of the forecast by which CPU time may be off for want of a calibration of the machine.
UNCALIBRATED = 0.02
#: Shares of compressed blocks nearer than this are one.
COMPRESSED_ALIKE = 0.05
#: Share by which waits weigh more or less where no work moves from thread to thread.
DEPENDENT = 0.1
#: Share of its time that temp I/O waits for a limit of the storage.
LIMITED = 0.5
#: Temp latency below which Oracle's baseline is likely served by flash already.
FLASH_S = 1e-3
#: Share of the target's waits from which an event that the baseline has not is named.
NEW_SHARE = 0.05
#: Share of temp requests from which on a flash cache is said to serve them.
SERVED = 0.2

# Work memory that was not measured.
#: With other memory than it had a query's work outside temp I/O may be off by so much of itself
#: (standard deviation of the logarithm): what sorts in memory misses caches that runs fit into,
#: and what does not spill neither packs nor copies its rows. So much were 15 queries of PostgreSQL
#: off in CPU time, between 0.67 and 1.6 times.
MEMORY_SPREAD = 0.25
#: A count between two measured ones may be off by so much of what they are apart.
BETWEEN = 0.25
#: One that follows from the engine's own arithmetic may be off by so much of itself.
COMPUTED = 0.05
#: Counts that are no further apart than this are as many.
ALIKE = 0.05

# What CPU times in a recording of DuckDB say of compressing.
#: Fewer blocks of a kind tell nothing.
BLOCKS_MIN = 30
#: Of the CPU times, those before the longest are averaged: blocks are also written between phases.
TRIMMED = 0.2
#: The highest level takes long, too: of what compressing takes, up to so many times the median.
LONGEST = 10.0
#: What compressing takes more or less elsewhere may be off by so much of itself.
COMPRESSING_SPREAD = 0.5
#: How many CPUs a thread works on, now and then, where there are so many.
CPUS_OF_A_THREAD = 2
