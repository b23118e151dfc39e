"""Evidence with too little about temp I/O is recognised, and refused with the reason."""

import json
import re

import pytest

from cases import cases
from harness import spillcast
from spillcast.errors import (
    EvidenceIncomplete,
    EvidenceUnknown,
    EvidenceUnsuited,
    InputError,
    NoTempIo,
)
from spillcast.evidence.open import find_evidence, open_evidence, read_figures
from spillcast.evidence.postgres.logs import read_logs
from spillcast.evidence.postgres.plan import blocks_of, read_plan
from spillcast.evidence.postgres.statements import executed_statement, read_statements
from spillcast.evidence.recognise import recognise
from spillcast.evidence.selection import ONLY_RUN, Selection
from spillcast.profile import profile

QUERY_ID = "5418f18d-85a7-45a3-9b1d-1c77b62df9ac"


@cases(
    "text",
    [
        "# Query_time: 9.0  Lock_time: 0.1 Rows_sent: 2 Sort_merge_passes: 512\nSELECT 1;\n",
        "Variable_name\tValue\nSort_merge_passes\t512\nCreated_tmp_disk_tables\t1\n",
        "*** 1. row ***\n  EVENT_NAME: statement/sql/select\n  CREATED_TMP_DISK_TABLES: 2\n",
        "<pre>\nSUM_TIMER_WAIT: 52896\nSUM_SORT_MERGE_PASSES: 7\n</pre>\n",
        "Table 'Worktable'. Scan count 3, logical reads 29, physical reads 0.\n",
        '"Worktable"-Tabelle. Scananzahl 0, logische Lesevorgänge 29.\n',
        "wait_type,waiting_tasks_count,wait_time_ms\nIO_COMPLETION,123456,234567\n",
        "session_id wait_type      wait_time_ms\n---- ------\n\nIO_COMPLETION   27530\n",
        "plan_id,wait_category_desc,total_query_wait_time_ms\n44,Other Disk IO,27530\n",
        '<event name="sort_warning" package="sqlserver"><data name="thread_id"/></event>\n',
        "- **Spill (memory): 12.1 GiB**, Spill (disk): 812 MiB\n- GC Time 1 s\n",
        "Summary Metrics\nDuration\t4 s\t48 s\nSpill (disk)\t0.0 B\t1.4 GiB\n",
        " query | seg | label | is_diskbased\n-------+-----+-------+---\n 7 | 1 | sort | t\n",
        " pid | wait_event  | query\n-----+----+---\n 812 | BufFileRead | select 1\n",
        " datname | temp_files | temp_bytes\n---------+----+------\n shop    | 51 | 4161 MB\n",
        " backend_type   | object | context | reads\n---+---+---+---\n a | b | c | 7\n",
        "       name       |    size\n------------------+-------\n pgsql_tmp815.3   | 8388608\n",
        " total_exec_time | prop_exec_time | ncalls\n----+---+---\n 35:15:33 | 24.5% | 1,2\n",
        " query    | calls | total_time\n----------+-------+------\n select 1 |     9 | 1.5\n",
        "Limit: 10 row(s)  (cost=0..0 rows=0)\nTable scan on t  (cost=2.5..2.5 rows=0)\n",
        "-> Index lookup on t using k\n   (actual time=0.1..0.2 rows=1 loops=9)\n",
        "SID  STATE    EVENT                  SECS\n192  WAITING  direct path read temp  0\n",
        "query_id avg_ms avg_tempdb_space_used_mb\n-------- ------ ---\n42 401.5 819.2\n",
        "avg_spills  stmt\n----------- -----------\n26500       SELECT 1\n",
        "XN Merge  (cost=1.3..1.8 rows=5 width=27)\n  ->  XN Sort  (cost=1.3..1.8 rows=5)\n",
        "  execution time: 10s\n  rows read from KV: 6,001,215 (806 MiB)\n  network usage: 0 B\n",
        "Stage Id\tDescription\tDuration\tShuffle Read\n5\tcollect at x:25\t2.1 min\t12 GB\n",
        "- Queries generating the most temporary files (N)\n\n1) 8 - 1.2 GiB - SELECT a;\n",
        'ZV\x01\x00\x22\x00\x2c\x1f{"Event":"SparkListenerLogStart" \x2c\x03sion',
        "          ADDM Report for Task 'TASK_7'\n\nDatabase version 12.1.0.2.0.\n",
        "Statistics\n------------\n   54288  physical reads\n       1  sorts (disk)\n",
        "SQL_ID        SUM(BLOCKS)\n------------- -----------\ncw4d8h5fudg6b      456704\n"
        "SQL> select * from v$tempseg_usage;\n",
        " SID STATE    SECONDS_IN_WAIT EVENT\n---- ------- --------------- -----\n"
        "1719 WAITING               0 direct path write temp\n",
        "NAME      VALUE\n--------- -----\nsorts (disk)   3\n",
        "User I/O Wait Time (ms)       246,032    N/A     N/A\n",
        "PLAN_LINE_ID,WORKAREA_MAX_MEM,WORKAREA_MAX_TEMPSEG\n2,4194304,8388608\n",
        "FILETYPE_NAME LARGE_READ_REQS\n------------- ---------------\nTemp File  810231\n",
        "NAME\tVALUE\nphysical writes direct temporary tablespace\t15727\n",
        "NAME         PHYRDS READTIM\n------------ ------ -------\n/u2/temp.dbf  48812   21922\n",
        "  ActSes   %Thread | SQL_ID        | EVENT\n     .52      (52%) | 8gn3q7k6h3y5n | a\n",
        "OPERATION\tLAST_DISK_READS\tLAST_DISK_WRITES\nSORT\t7147\t7147\n",
        "USERNAME   SQL_ID        SEGTYPE   TABLESPACE\nSCOTT      8gn3q7k6h3y5n SORT\n",
        "# Attribute          total     min     max\n# Exec time        179486s     3us   2713s\n",
        '{\n  "stageId" : 0,\n  "memoryBytesSpilled" : 9,\n  "diskBytesSpilled" : 7\n}\n',
        "24/1/5 23:04 INFO Sorter: Thread 152 spilling sort data of 2.1 GiB to disk (0 time)\n",
        "INFO ExternalSorter: Task 12 force spilling in-memory map to disk and it will release\n"
        "INFO ExternalSorter: Thread 47 spilling in-memory map of 96.0 MiB to disk (3 times)",
        ' "Task Metrics": {\n  "Memory Bytes Spilled": 81920,\n  "Disk Bytes Spilled": 4096\n },\n',
        "sort time\n1.2 m\nspill size total (min, med, max)\n4.5 GiB (0.0 B, 1.1 GiB, 1.2 GiB)\n",
        "  SUM_SUM_SORT_MERGE_PASSES: 12\n  SUM_SUM_SORT_ROWS: 912\n",
        "Code: 241. DB::Exception: Memory limit (for query) exceeded: would use 9.31 GiB\n",
        "     CPU: 235.00ms (20.12%), Scheduled: 266.00ms (15.09%), Output: 1500000 rows\n",
        "| TableReader_17 | 1.00 | 1 | root | time:211.1us | N/A | N/A |\n  cop[tikv]\n",
        "Bytes spilled: 977346042\n",
        "   51  1 DW   etl   829320316 TEMP  TEMPORARY HASH     201   21512   291   18624  1\n",
        "3 [label=&quot;Sort\\nspill size&quot;];\nlabel=&quot;WholeStageCodegen\\n177 ms&quot;;\n",
        "AggregatingTransform: Will merge 81 temporary files of size 1.13 GiB compressed.\n",
        "| sort | external merge Disk: 31MB |\n",
        ' *   "temp_blks_written": 512,\n',
        "| 99,000 users | shared hit=645 read=399, temp read=5158 written=5164 | 2,737.8 ms |\n",
        'cnpg_pg_stat_statements_temp_blks_written{datname="dw",queryid="77"} 121000\n',
        '{"metric":{"__name__":"pg_stat_database_temp_bytes","datname":"dw"},"value":[1,"9"]}\n',
        '{"Metric": "db.load.avg", "Dimensions": {"db.wait_event.name": "IO:BufFileRead"}}\n',
        '{"postgres": {"tempfile_info": {"count": 81, "maxsize": 190840832, "size": 18779}}}\n',
        "│ /tmp/t.tmp/duckdb_temp_storage_S96K-0.tmp │ 412090368 │\n",
        "(raylet) Spilled 2048 MiB, 12 objects, write throughput 512 MiB/s.\n",
        "3;fio-3.28;randread;0;0;4194304;69905;17476;60001\n",
        "@usecs[nvme0n1, write]: \n[16, 32)     1021 |@@      |\n",
        "input_bytes=1,207,968,776\nspilled_bytes=140,803,703\ntotal_us=5,586,112\n",
        "'write': {'total_ios': 9, 'clat_ns': {'min': 4834, 'mean': 107193.1}}\n",
        "min/avg/max/mdev = 216 us / 1.4 ms / 33.6 ms / 3.3 ms\n",
        "thread |       bytes     |     I/Os     |     MB/s\n",
        "1073741824 bytes (1.1 GB, 1.0 GiB) copied, 4.20552 s, 255 MB/s\n",
        "     r/s     rkB/s r_await rareq-sz Device\n    0.00  0.0k    0.00     0.0k sda\n",
        "read:   ops/s    kB/s   avg RTT (ms)    avg exe (ms)\n  2690.0  11579.6  2.858  2.914\n",
        " r  b   swpd   free   buff  cache   si   so    bi    bo\n 1  4      0 812344  21 912\n",
        "----dsk/sda---\n read  writ\n  38k 3442k\n",
        "2021.07.27 10:53:32.017057 [ 30637 ] {} executeQuery: Read 1 rows\n",
        "Settings: {'a':'1'}\nProfileEvents:  {'Query':1,'SelectedRows':100000}\n",
        "Non-sync'ed 8kB writes:\n        write   412345.100 ops/sec       2 usecs/op\n",
        "MAX_IOPS = 18123\nMAX_MBPS = 412\nLATENCY  = 1\n",
        "File operations:\n    reads/s:      1812.21\n    writes/s:     1208.11\n",
        "| SSD | 4K\u8bfb\u53d6IOPS: 81K |\n",
        "  EVENT_NAME: wait/io/file/sql/io_cache\n  COUNT_READ: 246\n  SUM_TIMER_READ: 12953\n",
        "| Creating sort index  | 12.120031 |\n| Sending data         |  0.880021 |\n",
        "Total sorts     = 48213\nSort overflows  = 1220\n",
        "[host] 2022.02.18 11:26 [ 0 ] ExternalSortWritePart: 7 (increment)\n",
        "% time     seconds  usecs/call  calls  errors syscall\n 61.2 12.3 310 39774 pread64\n",
        "     usecs               : count     distribution\n        64 -> 127        : 812\n",
        "10:21:01 AM   UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command\n",
        "query,query_execution_time,query_temp_blocks_to_disk\n48213,913,92113\n",
        "query_id,count_executions,avg_duration,avg_tempdb_space_used\n4021,12,9.3,108503.7\n",
        "QUERY PLAN\n|--SCAN t1\n`--USE TEMP B-TREE FOR ORDER BY\nRun Time: real 61.2 user 4.1\n",
        "1+0 Datens\u00e4tze ein\n1+0 Datens\u00e4tze aus\n",
        '4711 pwrite64(5</tmp/a.tmp>, "..."..., 262144, 0) = 262144 <0.001200>\n',
        '[pid 7] 10:04:50.03 read(5, ""..., 8192) = 8192\n',
        f"2020.09.10 10:04:50.03 [ 9 ] {{{QUERY_ID}}} <Trace> Aggregator: Written part in 24 s\n",
    ],
)
def test_incomplete_evidence_is_recognised_and_refused(tmp_path, text):
    (path := tmp_path / "paste.txt").write_text(text)
    assert find_evidence([path]).only_kind() == "figures"
    with pytest.raises(EvidenceUnsuited):
        read_figures([path])


@cases(
    ("engine", "text"),
    [
        ("Greenplum", "  Work_mem wanted: 575507K bytes avg to lessen workfile I/O\n"),
        ("MongoDB", '{"executionStats": {"totalKeysExamined": 0, "usedDisk": true}}\n'),
        ("Impala", "   - ScratchBytesWritten: 3.10 GB (3328599654)\n   - ScratchWrites: 812\n"),
        ("Doris", "  -  SpillWriteFileBytes:  212.40  MB\n  -  SpillWriteFileTotalCount:  48\n"),
        ("Vertica", "EXECUTION | GROUP_BY_SPILLED | the keys did not fit in memory\n"),
        ("Ray", "Cluster memory:\n* Spilled to disk: 4096MB\n* Restored from disk: 81MB\n"),
        ("Velox", "Output: 9 rows (23.84KB), Threads: 1, Spilled: 9 rows (459B, 5 files)\n"),
        ("Hive", "INFO  :    SPILLED_RECORDS: 812\nINFO  :    ADDITIONAL_SPILL_COUNT: 4\n"),
        ("Databend", "query_duration_ms: 4821\njoin_spilled_rows: 81\njoin_spilled_bytes: 4212\n"),
        ("MySQL", '{"filesort_summary": {"num_initial_chunks_spilled_to_disk": 2011}}\n'),
        ("DuckDB", "tag,memory_usage_bytes,temporary_storage_bytes\nORDER_BY,0,4294967296\n"),
        ("DuckDB", "\u2502 \u2500 \u2500 \u2500 \u2500 \u2502\n\u2502 81 Rows \u2502\n"),
        (
            "Drill",
            '"operatorType": "HASH_AGGREGATE", "metrics": {"SPILL_MB": 812, "SPILL_CYCLE": 1}\n',
        ),
        ("Teradata", "by way of an all-rows scan into Spool 1 (group_amps), built locally.\n"),
        (
            "Sybase",
            "Table: orders scan count 1, logical reads: (regular=812 apf=0 total=812), physical "
            "reads: (regular=0 apf=0 total=0), apf IOs used=0\nTotal writes for this command: 64\n",
        ),
        ("TiDB", "spill:{round:1, spilled_partition_num_per_round:[3/8]}\n"),
        ("Impala", "| Operator | #Hosts | Avg Time | Max Time | #Rows | Est. #Rows | Peak Mem |\n"),
        ("Impala", "03:AGGREGATE [FINALIZE]\n|  mem-estimate=8.00MB mem-reservation=0B\n"),
        ("StarRocks", "| QueryId | MemoryUsage | DiskSpillSize |\n| 6e | 9 MB | 81.2 MB |\n"),
        ("StarRocks", "| `LocalWriteIOTime` | 1m12s |\n| `LocalReadIOTime` | 9.1s |\n"),
        ("Teradata", "Results are computed globally, then placed in Spool 3.\n"),
        ("MySQL", "# Exec time      5     12s     12s     12s\n# Tmp disk tbl   2       1\n"),
        ("MySQL", "| count(*) | STATE |\n|  7 | Creating sort index  |\n|  1 | init |\n"),
        ("Exasol", "STMT_ID,PART_NAME,DURATION,CPU,TEMP_DB_RAM_PEAK\n12,SORT,12.1,99.2,812.3\n"),
        ("Firebird", "Current memory = 35289\nDelta memory = 1024\nElapsed time = 2.5 sec\n"),
        ("MatrixOne", "  Analyze: timeConsumed=812ms MemorySize=32mb SpillSize=4194304bytes\n"),
        ("Databricks", '{"metrics": {"total_time_ms": 22443, "spill_to_disk_bytes": 21474}}\n'),
        ("SingleStore", "HashGroupBy [c] actual_rows: 12 exec_time: 41ms memory_usage: 5 KB\n"),
        ("Presto", '{"queryStats": {"executionTime": "1.45m", "spilledDataSize": "12GB"}}\n'),
        ("OceanBase", "| |ID|OPERATOR        |NAME|EST.ROWS|EST.TIME(us)|  |\n| |0 |SORT |\n"),
        ("Dameng", "1   #NSET2: [7, 12, 108]\n2     #SORT3: [7, 12, 108]; key_num(1)\n"),
        (
            "Informix",
            "Estimated Cost: 812\nEstimated # of Rows Returned: 12\n  1) a.t: SEQUENTIAL\n",
        ),
        ("Teradata", "2) We do an all-AMPs RETRIEVE step from db.t into Spool 1 (group\\_amps)\n"),
        ("Db2", "Number of hash joins = 12\nNumber of hash join overflows = 4\n"),
        (
            "SQL Server",
            " SQL Server Execution Times:\n   CPU time = 812 ms,  elapsed time = 9 ms.\n",
        ),
        ("SQL Server", "  |--Sort(ORDER BY:([t].[a] ASC))\n       |--Table Scan(OBJECT:([t]))\n"),
        ("SQL Server", "session_id\tinternal_objects_alloc_page_count\n57\t184320\n"),
        ("Netezza", 'NOTICE:  QUERY PLAN:\n\nNode 1.\n  [SPU Sequential Scan table "A" {}]\n'),
        ("SAP HANA", "OPERATOR_NAME;OUTPUT_SIZE\nCOLUMN SEARCH;12\n  COLUMN TABLE;7\n"),
        ("Db2", "DB2 Universal Database Version 11.5\n\nAccess Plan:\n\tTotal Cost: 812.4\n"),
        ("Oracle", "SQL> select sql_id, max(temp_space_allocated)/1e9 gig from ash group by 1;\n"),
        ("Oracle", "OPERATION MAX_MB PASSES\n--------- ------ ------\nHASH-JOIN  14336 2 PASSES\n"),
        ("MongoDB", '{"lookup": {"hashLookup": 12, "hashLookupSpillToDisk": 3}}\n'),
        ("TiDB", "# Query_time: 81.5\n# Process_time: 70.07\n# Disk_max: 1073741824\nselect 1;\n"),
        ("MySQL", "# Query_time: 81.5\nselect usedDisk from t group by (g) order by password;\n"),
        ("PostgreSQL", "# Query_time: 9.0  Lock_time: 0.0\n# Temp_blks_read: 7\nSELECT 1;\n"),
        ("Vertica", "+-SORT [Cost: 9M, Rows: 100M] (PATH ID: 1)\n|  Order: t.a ASC\n"),
        ("Hive", "STAGE DEPENDENCIES:\n  Stage-1 is a root stage\n\nSTAGE PLANS:\n"),
        ("Spark", "== Physical Plan ==\n+- Sort [k#12L ASC NULLS FIRST], true, 0\n"),
        ("Db2", "SORT_OVERFLOWS HASH_JOIN_OVERFLOWS\n-------------- ----\n      122   41\n"),
        ("MariaDB", '{"table": {"table_name": "t", "r_rows": 2, "r_total_time_ms": 124.7}}\n'),
        ("Databricks", '{"metrics": {"totalTimeMs": 22443, "spillToDiskBytes": 21474}}\n'),
        ("StarRocks", "  - IsSpill: true\n  - FlushIOBytes: 750.902 MB\n  - ReadIOBytes: 1.1 GB\n"),
        (
            "DataFusion",
            "SortExec: metrics=[spill_count={0:2, 1:0}, spilled_bytes={0:9 B, 1:0 B}]\n",
        ),
        ("Synapse", "step_index\toperation_type\n4\tShuffleMoveOperation\n"),
        ("Presto", '"revocableMemoryReservation" : "5.97GB",\n"totalScheduledTime" : "5.02m",\n'),
        ("Oracle", "    Initial runs: 2 Merge passes: 1\n      Total Temp space used: 2434000\n"),
    ],
)
def test_an_engine_whose_text_is_unsupported_is_named(figures, engine, text):
    with pytest.raises(EvidenceUnsuited, match=engine):
        figures(text)


@cases(
    ("verb", "text", "engine"),
    [
        (
            "clickhouse",
            f"2020.09.10 10:04:50 [ 9 ] {{{QUERY_ID}}} Aggregator: Written\n",
            "a log of",
        ),
        ("clickhouse", "Table 'Worktable'. Scan count 3, logical reads 29.\n", "STATISTICS IO"),
        ("clickhouse", "Sort  (cost=1.0..2.0 rows=9 width=8)\n", "PostgreSQL"),
        ("mysql", "Sort  (cost=1.0..2.0 rows=9 width=8)\n", "PostgreSQL"),
        ("forecast", "USERNAME,SEGTYPE,EXTENTS\nBATCH,HASH,3541\n", "not evidence by themselves"),
        ("profile", "  - ScratchBytesWritten: 3.10 GB (3328599654)\n", "Impala"),
        ("postgres", "WAIT #1: nam='x' ela= 5 p1=1 p2=2 p3=3 tim=70000000000\n", "SQL trace"),
        (
            "mysql",
            "# Query_time: 9.0  Lock_time: 0.1 Sort_merge_passes: 5\nSELECT 1;\n",
            "of MySQL",
        ),
        (
            "postgres",
            "# Query_time: 9.0  Lock_time: 0.1 Sort_merge_passes: 5\nSELECT 1;\n",
            "of MySQL",
        ),
    ],
)
def test_a_verb_of_one_engine_names_evidence_that_it_does_not_read(tmp_path, verb, text, engine):
    (path := tmp_path / "paste.txt").write_text(text)
    result = spillcast(verb, path)
    assert (result.returncode, engine in result.stderr) == (2, True)


@cases(
    "text",
    [
        "- **SortSpillDetails**: WritesToTempDb=260 | ReadsFromTempDb=260\n",
        "    </RelOp>\n  <RelOp NodeId='67' PhysicalOp='Sort'>\n",
        "    ├── wait time: 7.92s\n    └── output bytes: 272.05 GiB\n",
        '"Temp Read Blocks": 31,\n"Temp Written Blocks": 32,\n"Plans": [\n',
    ],
)
def test_a_part_of_a_plan_is_refused(tmp_path, text):
    (path := tmp_path / "paste.txt").write_text(text)
    evidence = find_evidence([path])
    with pytest.raises((EvidenceIncomplete, EvidenceUnknown)):
        open_evidence(evidence, ONLY_RUN)


HISTORY = (
    "QUERY_ID,QUERY_TEXT,TOTAL_ELAPSED_TIME,BYTES_SPILLED_TO_LOCAL_STORAGE,"
    'BYTES_SPILLED_TO_REMOTE_STORAGE\n01b2,"select a,\n b from t",125000,4096,1024\n'
)
STATISTICS = (
    'QUERY_ID,OPERATOR_STATISTICS\n01b2,"{""spilling"": {""bytes_spilled_local_storage"": 5120}}"\n'
)
DATABEND = "query_duration_ms,join_spilled_bytes,agg_spilled_bytes\n125000,4096,1024\n"
WAREHOUSE = "statement_id,total_duration_ms,spilled_local_bytes\n01ef,125000,5120\n"
STAGES = "job_id,total_slot_ms,shuffle_output_bytes_spilled\njob1,100000,5120\n"


#: The unit is unknown, and so is the time.
PROSE = (
    "- Bytes spilled to local storage · 4.1 — too little memory\n- Execution time: 125 seconds\n"
    "- bytes_spilled_to_local_storage: 5 KiB\n"
)


@cases(
    "text,elapsed_s",
    [
        (HISTORY, 125.0),
        (WAREHOUSE, 125.0),
        (DATABEND, 125.0),
        (STATISTICS, 9.0),
        (STAGES, 9.0),
        (PROSE, 9.0),
    ],
)
def test_an_export_that_counts_bytes_names_the_figures_to_give(figures, text, elapsed_s):
    with pytest.raises(EvidenceUnsuited) as refused:
        figures(text)
    word = re.search(r"figures:\S+", refused.value.hint)[0]
    counts = read_figures([word.replace("ELAPSED", "9s")], Selection(timed=False))
    assert (counts.elapsed_s, counts.writes.bytes) == (elapsed_s, 5120)


@cases("prefix", ["ora1 ", "orcl_ora_1.trc:", "orcl_ora_1.trc:120:", "120:"])
def test_lines_of_a_trace_behind_a_prefix_are_recognised(tmp_path, prefix):
    line = "WAIT #7: nam='direct path read temp' ela= 9 file number=201 obj#=5 tim=1\n"
    (path := tmp_path / "paste.txt").write_text(prefix + line + prefix + line)
    assert find_evidence([path]).traces == [path]


@cases("more", ["", "Oracle8i Enterprise Edition Release 8.1.7.4.0 - Production\n"])
def test_a_trace_in_hundredths_is_read_only_if_its_release_is_known(tmp_path, more):
    """2 reads of 0.03 s, in hundredths of a second, the unit of release 8."""
    wait = "WAIT #1: nam='direct path read' ela= 3 p1=201 p2=9 p3=1\n"
    call = "FETCH #1:c=1,e=7,p=2,cr=0,cu=0,mis=0,r=1,dep=0,og=4,tim=218930\n"
    (path := tmp_path / "8i.trc").write_text(f"{more}{wait}{wait}{call}")
    if more:
        assert (
            sum(row["total_us"] for row in profile(path).rows if "read" in row["event"]) == 60_000
        )
    else:
        with pytest.raises(EvidenceIncomplete) as refused:
            profile(path)
        assert refused.value.hint


@cases("text", ["```", "~~~", "{code}\n{noformat}"])
def test_an_empty_code_fence_is_refused(tmp_path, text):
    (path := tmp_path / "paste.txt").write_text(text)
    with pytest.raises(EvidenceUnknown):
        find_evidence([path])


def test_times_of_reads_without_those_of_writes_are_refused(tmp_path):
    heading = "queryid,calls,total_exec_time,temp_blks_read,temp_blks_written,temp_blk_read_time"
    (path := tmp_path / "rows.csv").write_text(f"{heading}\n2,4,99234.5,50000,60000,1234.5\n")
    with pytest.raises(EvidenceIncomplete, match="temp_blk_write_time"):
        open_evidence(find_evidence([path]), ONLY_RUN, None)


def test_a_plan_whose_figures_were_removed_is_not_an_estimate(tmp_path):
    scan = "Seq Scan on t  (cost=0.00..10.00 rows=9 width=8)\n"
    head = "Sort  (cost=1.00..2.00 rows=9 width=8)\n"
    path, reasons = tmp_path / "plan.txt", []
    for details in ("", "  Sort Method: external merge  Disk: 80kB\n"):
        path.write_text(f"{head}{details}  ->  {scan}")
        with pytest.raises(EvidenceIncomplete) as error:
            open_evidence(find_evidence([path]), ONLY_RUN, None)
        reasons.append(str(error.value))
    assert len(set(reasons)) == 2


def test_values_of_a_cut_page_are_not_assigned_to_other_columns(rows_of):
    names = ["query", "queryid", "calls", "total_exec_time", "temp_blks_read", "temp_blks_written"]
    values = ["select 1", "7", "400", "50000", "60000", "70000"]
    heading, cells = (
        [f"<{tag}>{text}</{tag}>" for text in texts]
        for tag, texts in (("th", names), ("td", values))
    )
    [row] = rows_of(f"<table><tr>{''.join(heading)}</tr><tr>{''.join(cells)}")
    assert (row.calls, row.written_blocks) == (400, 70000)
    with pytest.raises(InputError):
        rows_of(f"<table><tr>{''.join(heading)}</tr><tr>{''.join(cells[:-1])}")


def test_a_json_record_of_a_failed_call_is_a_log(tmp_path):
    message = 'could not write to file "base/pgsql_tmp/pgsql_tmp815.3": No space left on device'
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"record": {"error_severity": "ERROR", "message": message}}))
    assert recognise(path).name == "plans"


SCAN = "Seq Scan on t  (cost=0.0..4.0 rows=9 width=8) (actual time=0.1..1.0 rows=9 loops={loops})"
IN_MEMORY = f"""\
Limit  (cost=0.0..9.0 rows=9 width=8) (actual time=1.0..3.0 rows=9 loops=1)
  ->  Sort  (cost=0.0..9.0 rows=9 width=8) (actual time=1.0..3.0 rows=9 loops=1)
        Sort Method: quicksort  Memory: 25kB
        ->  Hash Join  (cost=0.0..9.0 rows=9 width=8) (actual time=0.9..2.0 rows=9 loops=1)
              ->  {SCAN.format(loops=1)}
              ->  Hash  (cost=0.0..9.0 rows=9 width=8) (actual time=0.2..0.2 rows=9 loops=1)
                    Buckets: 1024  Batches: 1  Memory Usage: 9kB
                    ->  HashAggregate  (cost=0.0..9.0 rows=9 width=8) (actual rows=9 loops=1)
                          Batches: 1  Memory Usage: 24kB
                          ->  {SCAN.format(loops=1)}
Execution Time: 3.1 ms
"""
#: What a plan without BUFFERS may not show, by the change: a cut end, an earlier run of
#: a sort, missing lines, and sorts within an aggregate or kept rows, which are never shown.
OPEN = {
    "end": ("Execution Time: 3.1 ms\n", ""),
    "runs": ("(actual time=1.0..3.0 rows=9 loops=1)\n        Sort", "(actual rows=9 loops=2)\n"
             "        Sort"),
    "inputs": (f"                          ->  {SCAN.format(loops=1)}\n", ""),
    "method": ("        Sort Method: quicksort  Memory: 25kB\n", ""),
    "batches": ("                    Buckets: 1024  Batches: 1  Memory Usage: 9kB\n", ""),
    "distinct": ("                          Batches: 1  Memory Usage: 24kB\n", ""),
    "kept": ("->  Hash Join", "->  WindowAgg"),
}  # fmt: skip


def test_sorts_and_hashes_in_memory_show_that_a_query_did_not_spill(tmp_path):
    (path := tmp_path / "plan.txt").write_text(IN_MEMORY)
    with pytest.raises(NoTempIo):
        read_plan(path)
    assert not any(blocks_of(each["Plan"]) for each in read_logs(path).plans)


@cases("change", OPEN)
def test_without_buffers_other_nodes_may_have_spilled(tmp_path, change):
    (path := tmp_path / "plan.txt").write_text(IN_MEMORY.replace(*OPEN[change]))
    for read in (read_plan, read_logs):
        with pytest.raises(EvidenceIncomplete):
            read(path)


@cases("top", ["Limit", "Subquery Scan on x"])
def test_a_log_that_ends_within_a_plan_does_not_show_whether_it_spilled(tmp_path, top):
    """A log does not mark the end of a plan: the inputs of a node may be missing."""
    lines = IN_MEMORY.replace("Limit", top).splitlines()[:-1]
    path = tmp_path / "a.log"
    for end in range(1, len(lines)):
        shown = ["2026-03-01 10:00:00.000 UTC [7] LOG:  duration: 9.5 ms  plan:", *lines[:end]]
        path.write_text("\n\t".join(shown) + "\n")
        for read in (read_plan, read_logs):
            with pytest.raises(EvidenceIncomplete):
                read(path)


#: Typical selections of statements that spill.
WITHOUT_TIME = """\
       query       | calls | temp_blks_read | temp_blks_written
-------------------+-------+----------------+-------------------
 select a order by |    12 |          39600 |             40800
 select c group by |     3 |          90000 |             90300
"""


def test_rows_without_times_are_ranked_by_their_blocks(tmp_path):
    (path := tmp_path / "rows.txt").write_text(WITHOUT_TIME)
    document = json.loads(spillcast("postgres", path, "--to", "latency:1ms", "--json").stdout)
    ranked = [(row["query"], row["temp_bytes"], row["elapsed_s"]) for row in document["statements"]]
    assert ranked == [("select c group by", 180_300 * 8192, None),
                      ("select a order by", 80_400 * 8192, None)]  # fmt: skip
    for read in (read_statements, executed_statement):
        with pytest.raises(EvidenceIncomplete):
            read(path, Selection(item=2))
        with_time = read(path, Selection(item=2, elapsed_s=1.5))
        assert (with_time.elapsed_s, with_time.operations) == (1.5, 80_400 / 12)


def test_rows_without_reads_are_ranked_by_their_writes(tmp_path):
    (path := tmp_path / "rows.csv").write_text(
        "queryid,calls,total_exec_time,temp_blks_written\n7,10,5000,4000\n8,10,9000,0\n"
    )
    document = json.loads(spillcast("postgres", path, "--to", "latency:1ms", "--json").stdout)
    ranked = [(row["queryid"], row["temp_bytes"]) for row in document["statements"]]
    assert ranked == [("7", 4000 * 8192)]
    assert [note["code"] for note in document["unseen"]] == ["reads"]
    assert read_statements(path, Selection(queryid="7")).operations == 400 + 400
    assert executed_statement(path, Selection(queryid="7")).elapsed_s == 0.5


#: auto_explain logs estimates unless log_analyze is on.
ESTIMATED = """\
2026-03-01 10:00:00.000 UTC [7] LOG:  duration: 9.5 ms  plan:
\tQuery Text: select * from t order by a
\tSort  (cost=1.00..2.00 rows=9 width=4)
\t  Sort Key: a
\t  ->  Seq Scan on t  (cost=0.00..1.00 rows=9 width=4)
"""


#: The nodes above, which may have spilled, are missing.
END_OF_A_PLAN = """\
         SubPlan 1
           ->  Index Scan using i on t  (cost=0.1..8.1 rows=1 width=8) (actual rows=1 loops=6)
                 Buffers: shared hit=122
 Execution Time: 75.5 ms
"""


def test_the_end_of_a_plan_does_not_show_whether_it_spilled(tmp_path):
    (path := tmp_path / "a.txt").write_text(END_OF_A_PLAN)
    for read in (read_plan, read_logs):
        with pytest.raises(EvidenceIncomplete):
            read(path)


@cases("text", [ESTIMATED, ESTIMATED.split("order by a\n")[1]])
def test_estimates_do_not_show_whether_a_query_spilled(tmp_path, text):
    (path := tmp_path / "a.log").write_text(text)
    for read in (read_plan, read_logs):
        with pytest.raises(EvidenceIncomplete):
            read(path)
