"""Marks of engines whose evidence is not read, or counts only bytes."""

#: Engines whose plans count bytes but not operations: name, spilled-bytes counter, elapsed time.
BYTE_COUNTERS = (
    # Each node has an estimate of its maximum. The maxima cannot be summed, except zeros.
    ("CockroachDB",
     r"^[^\w\n]*+(?>estimated (?=max sql temp disk usage: 0 B)|)max sql temp disk usage: "
     r"([\d.]+ ?\w+)",
     # Times of nodes are indented further.
     r"^[^\w\n│]{,4}execution time: ([\d.]+ ?(?:\w|µ)+)"),
    ("Snowflake",
     r"(?:bytes[ _]spilled(?:[ _]to)?|(?:[,;/]|\band) ?to)[ _](?:local|remote)"
     r"(?:[ _](?:storage|disk))?[^\w\n]{1,80}+(\d[\d.,]*(?<=\d) ?\w*)",
     r"(?:total elapsed |execution |\btotal_elapsed_)time[^\w\n]{1,80}+([\d.]+(?: ?m?s)?)(?! ?\w)"),
    ("Databricks",
     r"(?:\bspill(?:_?to_?disk_?|ed_local_)bytes|\bbytes spilled to disk due to memory pressure"
     r"(?: total)?(?: \(min, med, max\))?\n?)[^\w\n]{,80}+(\d[\d.]*(?: ?[KMGT]?i?B)?)",
     r"\btotal_?(?:time|duration)_?ms[^\w\n]{1,80}+(\d+)"),
    ("BigQuery", r"\b(?:shuffle_?output_?|slot time consumed\b[\s\S]{,200}?\b)bytes[_ ]?spilled"
     r"(?: to disk\s*+)?[^\w\n]{,80}+([\d.]+(?: ?[KMGT]?B)?)", r"\belapsed time\W+([\d.]+ ?m?s)"),
    ("Trino or Presto", r"\b(?:Spilled: |spilledDataSize\W{3,9})(\d[\d.,]* ?[kKMGTP]?B)\b",
     r"\bExecution(?: ?time)?\W{2,9}([\d.]+ ?(?:m?s|[mhd]))\b"),
    ("Databend", r"\b(?:agg|group_by|join)_spilled_bytes[^\w\n]{1,80}+(\d+)",
     r"\bquery_duration_ms[^\w\n]{1,80}+(\d+)"),
    # Only the root's row has the time of the query. Disk is the column after memory.
    ("TiDB",
     r"^[+|\" \t]*+[\w└├│](?=.*\btime:\d).*(?:B(?:ytes)?|N/A)\"? *+[|,\t] *+\"?([\d.]+ [KMGT]?B)\"?"
     r"[ \t]*+\|?$",
     r"^[+|\" \t]*+\w.*?\btime:((?:[\d.]+[a-zµ]+)+)"),
    ("StarRocks", r"\b(?:QuerySpill(?:ed)?Bytes: |SpilledBytes=)([\d.]+ ?[KMGT]?B?)",
     r"(?:\bQueryExecutionWallTime: |\|Time=)([\d.][\w.]*)"),
    ("DataFusion", r"\bspilled_bytes=([\d.]+ ?[KMGT]?i?B?)(?=,\s|\])", r"(?!)"),
)  # fmt: skip
#: Engines with a text format that is not read, by marks that only their texts have.
TEXTS = (
    ("Greenplum", r"\bWorkfile: \(\d|\bWork_mem wanted: |\"Workfile Spilling\""),
    ("CockroachDB", r"^[^\w\n]*rows (?:read|decoded) from KV: "), ("Netezza", r"\[SPU "),
    ("Trino or Presto", r'\bCPU: [\d.]++\w++[^,\n]{,9}, Scheduled: \d|"(?:spilledDat|revocable)'),
    ("TiDB", r"\bcop\[tikv\]|\bactRows\b|\bspilled_partition_num|^(?:# )?Disk_max: "
     r"|\bexecution info\"? *[|,\t]"),
    ("SQLite", r"^[^\w\n]*USE TEMP B-TREE FOR "), ("Exasol", r"\btemp_db_ram_peak\b"),
    ("Sybase ASE", r"\blogical reads: \(regular=|^[^\w\n]*Total writes for this command: "),
    ("Firebird", r"^[^\w\n]*Delta memory = "), ("Velox", r"\bSpilled: \d[\d,]* rows\b"),
    ("Impala or Doris",
     r"\bScratchBytesWritten\b|\bSpilled(?:Partitions|Runs)\b|\bSpillWrite\w+: |\bEst\. #Rows\b"
     r"|\bmem-reservation="),
    ("StarRocks", r"\b(?:DiskSpillSize|FlushIOBytes|(?:Local|Remote)(?:Read|Write)IOTime)\b"),
    ("DataFusion", r"\bspilled_bytes=\{"), ("Azure Synapse", r"\bShuffleMoveOperation\b|\bdm_pdw_"),
    ("Hadoop (Hive, Tez)", r"\bspilled[_ ]records\b|\badditional_spill|^STAGE DEPENDENCIES:"),
    ("Vertica", r"\b(?:GROUP_BY|JOIN)_SPILLED\b|\(PATH ID: \d"),
    ("SingleStore", r"\bactual_rows: \d.{,200}\bexec_time: \d"), ("Dameng", r"\bNSET2: \[\d"),
    ("Db2", r"\b(?:sort|hash[ _]join)[ _]overflows\b|\bSPILLED\s*: \(Pages|\bDB2 Universal"),
    ("MongoDB", r"\b(?:usedDisk|\w*spillToDisk)\W{,2}:"), ("SAP HANA", r"(?-i:\bCOLUMN SEARCH\b)"),
    ("OceanBase", r"\bEST\. ?ROWS *\|"), ("Informix", r"\bEstimated # of Rows Returned: "),
    ("Dremio or Drill", r"(?-i:\bSPILL_(?:COUNT|CYCLE|MB)\b)"), ("MatrixOne", r"\bSpillSize="),
    ("Teradata", r"\ball-AMPs\b|\bSpool \d+ \(|\bplaced in Spool \d"),
    ("DuckDB's plans and system tables", r"\bduckdb_temp|\btemporary_storage_bytes\b|[│┃] *─ ─ ─"),
    ("Dask or Ray", r"^distributed\.\w|^\(raylet\) |^\* Spilled to disk: \d"),
)  # fmt: skip
#: The CSV heading of a table with one of these counters.
COUNTER_HEADING = (
    r"^(?=.*\b(?:bytes_spilled_to_(?:local|remote)_storage|shuffle_output_bytes_spilled"
    r"|spilled_local_bytes|join_spilled_bytes)\b)[\w\",;\t ]+$"
)
