"""Plans of SQL Server and rows of its views, as it writes them."""

SORT = """<MemoryGrantInfo GrantedMemory="1024" MaxUsedMemory="1024"/>
<WaitStats><Wait WaitType="IO_COMPLETION" WaitTimeMs="2753" WaitCount="3643"/>
<Wait WaitType="PAGEIOLATCH_SH" WaitTimeMs="225" WaitCount="690"/></WaitStats>
<QueryTimeStats CpuTime="1500" ElapsedTime="5000"/>
<RelOp NodeId="0" PhysicalOp="Sort"><Warnings><SpillToTempDb SpillLevel="2" SpilledThreadCount="1"/>
<SortSpillDetails GrantedMemoryKb="1024" UsedMemoryKb="1024" WritesToTempDb="{pages}"
 ReadsFromTempDb="{pages}"/></Warnings><RunTimeInformation>
<RunTimeCountersPerThread Thread="0" ActualElapsedms="5000"/></RunTimeInformation></RelOp>"""
#: As version 13 wrote it: no waits and no times of the query, a parallel join.
HASH = """<MemoryGrantInfo GrantedMemory="1998616" MaxUsedMemory="1945968"/>
<RelOp PhysicalOp="Parallelism"><RunTimeInformation><RunTimeCountersPerThread Thread="0"
 ActualElapsedms="15548"/></RunTimeInformation><RelOp PhysicalOp="Hash Match"><Warnings>
<SpillToTempDb SpillLevel="1" SpilledThreadCount="8"/><HashSpillDetails GrantedMemoryKb="997376"
 UsedMemoryKb="996656" WritesToTempDb="10040" ReadsFromTempDb="19040"/></Warnings></RelOp>
</RelOp>"""
OLD = """<RelOp PhysicalOp="Sort"><Warnings><SpillToTempDb SpillLevel="1"/></Warnings>
<RunTimeInformation><RunTimeCountersPerThread Thread="0" ActualRows="1"/></RunTimeInformation>
</RelOp>"""
FITS = OLD.replace('<SpillToTempDb SpillLevel="1"/>', "")
ESTIMATED = '<RelOp NodeId="0" PhysicalOp="Sort"/>'


def plan(*statements):
    """An execution plan of statements, each the inside of its QueryPlan."""
    inside = "".join(
        f'<StmtSimple StatementText="select {n}"><QueryPlan DegreeOfParallelism="8">{statement}'
        "</QueryPlan></StmtSimple>"
        for n, statement in enumerate(statements)
    )
    return (
        '<?xml version="1.0" encoding="utf-16"?>\n<ShowPlanXML xmlns="http://schemas.microsoft.com/'
        'sqlserver/2004/07/showplan" Version="1.564" Build="16.0.4210.1"><BatchSequence><Batch>'
        f"<Statements>{inside}</Statements></Batch></BatchSequence></ShowPlanXML>"
    )


QUERIES = """query_hash,execution_count,total_elapsed_time,total_worker_time,total_spills,total_dop
0xF00E,4,20000000,6000000,31364,4
0xAA,1,10,10,0,1
"""
FILES = (
    "database_id\tfile_id\tsample_ms\tnum_of_reads\tnum_of_bytes_read\tio_stall_read_ms\t"
    "num_of_writes\tnum_of_bytes_written\tio_stall_write_ms\n"
)
