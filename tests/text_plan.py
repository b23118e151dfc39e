"""A text plan as psql prints it: a leader and three workers that spill."""

TEXT_PLAN = """
 Gather Merge  (cost=1.00..2.00 rows=9 width=49) (actual time=1.0..2000.0 rows=9 loops=1)
   Workers Planned: 3
   Workers Launched: 3
   Buffers: shared hit=4 read=7, temp read=3000 written=3100
   I/O Timings: shared/local read=9.000, temp read=600.000 write=930.000
   ->  Sort  (cost=1.00..2.00 rows=9 width=49) (actual time=1.0..2.0 rows=9 loops=4)
         Sort Key: k
         Sort Method: external merge  Disk: 8000kB
         Buffers: shared hit=4 read=7, temp read=3000 written=3100
         I/O Timings: shared/local read=9.000, temp read=600.000 write=930.000
         Worker 0:  Sort Method: external merge  Disk: 7000kB
         ->  Parallel Seq Scan on t  (cost=1.00..2.00 rows=9 width=49) (never executed)
 Planning Time: 0.1 ms
 Execution Time: 2500.000 ms
(14 rows)
"""
