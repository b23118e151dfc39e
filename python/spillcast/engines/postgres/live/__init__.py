"""Records queries of a running PostgreSQL server: finds sessions, samples them, attaches processes.

Parallel workers are children of the server, not of the session that they work for. The capture
watches for children of the server and attaches a session's workers within about 10 ms of their
start, most of which a worker needs to connect. The I/O that a worker did before is counted in the
recording; workers do no temp I/O so early.

``record --all`` uses one capture of the server and all its children, and one connection that
samples all sessions 20 times a second: when each query begins and ends, and which session a
parallel worker belongs to. Two seconds after the end of a query, the rows of its processes between
begin and end become a recording, if they contain temp I/O. Rows that belong to no known query are
counted and reported.
"""
