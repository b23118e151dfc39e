--# begin
-- Collects what spillcast needs to forecast a spilling query on other storage.
--
-- Run it in SQL*Plus 12.2 or later:   sqlplus USER@SERVICE @collect.sql
-- It writes spillcast_*.csv into the current directory. For an older SQL*Plus, put
--   set colsep ';' pagesize 50000
-- in the place of "set markup csv on"; spillcast reads both. In SQLcl: set sqlformat csv
--
-- It reads views and changes nothing, except that the trace of one session is switched on and off
-- where a session was named. The user needs SELECT_CATALOG_ROLE, and EXECUTE on DBMS_MONITOR for
-- the trace. Whoever runs it logs on as usual: no password stands here or is asked for.
set define off verify off feedback off echo off timing off
set linesize 32767 pagesize 50000 numwidth 20 trimspool on tab off
set markup csv on
set serveroutput on size unlimited format wrapped
-- An error in one part must not keep a later part from switching the trace off.
whenever sqlerror continue none

--# database
-- Parameters that decide when a query spills and how large a temp block is. Costs nothing.
prompt Parameters: spillcast_parameters.csv
set termout off
spool spillcast_parameters.csv
select name, value
  from v$parameter
 where name in ('db_block_size', 'pga_aggregate_target', 'pga_aggregate_limit',
                'workarea_size_policy', 'hash_area_size', 'sort_area_size',
                'control_management_pack_access')
 order by name;
spool off
set termout on

--# sessions
-- Who runs the statement now: a session for --sid SID,SERIAL. Costs nothing.
prompt Sessions that run {sql_id} now; name one with --sid to get its trace and statistics:
select inst_id, sid, serial#, username, last_call_et as active_s
  from gv$session
 where sql_id = '{sql_id}'
   and status = 'ACTIVE'
 order by inst_id, sid;

--# temp
-- Work areas in use, with the memory that Oracle thinks each would need, and temp space taken, as
-- they are at this moment. Costs nothing to speak of.
prompt Work areas: spillcast_workareas.csv
set termout off
spool spillcast_workareas.csv
select a.inst_id, a.sid, a.qcsid, a.sql_id, a.sql_exec_id, a.operation_id, a.operation_type,
       a.policy, a.active_time as active_us, a.work_area_size, a.expected_size, a.actual_mem_used,
       a.max_mem_used, a.number_passes, a.tempseg_size, a.tablespace, w.estimated_optimal_size,
       w.estimated_onepass_size
  from gv$sql_workarea_active a
  left join gv$sql_workarea w
    on w.inst_id = a.inst_id and w.workarea_address = a.workarea_address
 where {workareas_where}
 order by a.inst_id, a.sid, a.operation_id;
spool off
set termout on
prompt Temp space: spillcast_temp.csv
set termout off
spool spillcast_temp.csv
select t.inst_id, s.sid, s.serial#, t.username, t.sql_id, t.tablespace, t.segtype,
       t.segfile# as file_number, t.extents, t.blocks
  from gv$tempseg_usage t
  join gv$session s on s.inst_id = t.inst_id and s.saddr = t.session_addr
 where {temp_where}
 order by t.blocks desc;
spool off
set termout on

--# trace_on
-- The extended SQL trace (10046) of session {sid},{serial}, for {trace_s} s: each wait with its
-- length and size, without bind values, which may be personal data and are not needed. It writes
-- about 130 bytes for each wait, so some MB a second at most, and slows the session by a few
-- percent. Connect to the instance that the session runs on. Parallel workers write files of
-- their own. Run this part while the query reads or writes temp: the trace is a sample of that.
prompt Trace of session {sid},{serial} for {trace_s} s. Should this end early, switch it off with
prompt   exec dbms_monitor.session_trace_disable(session_id => {sid}, serial_num => {serial})
exec dbms_monitor.session_trace_enable(session_id => {sid}, serial_num => {serial}, waits => true, binds => false)
prompt The trace file, and the directory it lies in:
select p.tracefile
  from v$session s
  join v$process p on p.addr = s.paddr
 where s.sid = {sid}
   and s.serial# = {serial};
select value as trace_directory
  from v$diag_info
 where name = 'Diag Trace';

--# statistics
-- Statistics of the session, {samples} times {interval_s} s apart: growth, growth per second, and
-- the sum since logon. One short query on V$SESSTAT each time; the rows appear at the end. Before
-- Oracle 18, write dbms_lock.sleep for dbms_session.sleep.
prompt Statistics for {trace_s} s: spillcast_statistics.csv
set termout off
spool spillcast_statistics.csv
declare
  -- The sample before as ',statistic#=value,...': null at first, and then growth is null too.
  v_before varchar2(4000);
  v_now varchar2(4000);
  v_seconds number;
  v_clock number := dbms_utility.get_time;
begin
  dbms_output.put_line('"SAMPLE_TIME","NAME","VALUE","PER_SECOND","ACCUMULATED"');
  for i in 0 .. {samples} loop
    v_seconds := greatest(dbms_utility.get_time - v_clock, 1) / 100;
    v_clock := dbms_utility.get_time;
    v_now := null;
    for r in (
      select statistic#, name, accumulated - before as value,
             round((accumulated - before) / v_seconds) as per_second, accumulated
        from (select n.statistic#, n.name, s.value as accumulated,
                     to_number(regexp_substr(v_before, ',' || n.statistic# || '=(-?\d+)',
                                             1, 1, null, 1)) as before
                from v$sesstat s
                join v$statname n on n.statistic# = s.statistic#
               where s.sid = {sid}
                 and (n.name like 'physical read%'
                      or n.name like 'physical write%'
                      or n.name like 'cell flash cache read hits%'
                      or n.name like 'cell writes to flash cache%'
                      or n.name like 'cell overwrites in flash cache'
                      or n.name like 'cell physical IO%'
                      or n.name like 'temp space allocated%'))
       order by name
    ) loop
      v_now := v_now || ',' || r.statistic# || '=' || r.accumulated;
      if r.value is not null then
        dbms_output.put_line(to_char(systimestamp, 'YYYY-MM-DD HH24:MI:SS.FF3') || ',"' || r.name
          || '",' || r.value || ',' || r.per_second || ',' || r.accumulated);
      end if;
    end loop;
    v_before := v_now;
    if i < {samples} then
      dbms_session.sleep({interval_s});
    end if;
  end loop;
end;
/
spool off
set termout on

--# trace_off
prompt Trace off.
exec dbms_monitor.session_trace_disable(session_id => {sid}, serial_num => {serial})

--# licence
-- LICENCE: Active Session History belongs to the Oracle Diagnostics Pack, which is licensed apart,
-- on Enterprise Edition. To query it without that licence is a breach of it, and Oracle records the
-- use. The answer decides: at anything but yes the script ends here. Nothing above needs the pack,
-- and a forecast can be made from the trace alone. Made with --without-pack, the script samples
-- V$SESSION instead.
prompt
prompt LICENCE: what follows reads Active Session History, part of the Oracle Diagnostics Pack.
set define on
accept licensed char prompt 'Is this database licensed for the Diagnostics Pack (yes/no)? '
-- SQL*Plus knows no condition: at no, this divides by zero, and an error ends the script.
whenever sqlerror exit success none
set termout off
select 1 / decode(lower('&licensed'), 'yes', 1, 0) as licensed
  from dual;
set termout on
whenever sqlerror continue none
set define off

--# ash_memory
-- Active Session History of the last {minutes} minutes from memory: a row for each second and
-- active session. One scan of a memory buffer. It holds an hour or so; for what is older than the
-- first sample shown here, make the script with --history.
prompt The first sample in memory:
select to_char(min(sample_time), 'YYYY-MM-DD HH24:MI:SS.FF3') as first_sample
  from gv$active_session_history;
prompt Active Session History: spillcast_ash.csv
set termout off
spool spillcast_ash.csv
select to_char(sample_time, 'YYYY-MM-DD HH24:MI:SS.FF3') as sample_time, inst_id,
       session_id, session_serial#, sql_id, sql_exec_id,
       to_char(sql_exec_start, 'YYYY-MM-DD HH24:MI:SS') as sql_exec_start,
       sql_plan_line_id, sql_plan_operation, sql_plan_options, session_state, event, wait_class,
       p1, p2, p3, time_waited, qc_session_id, qc_instance_id, pga_allocated, temp_space_allocated,
       delta_read_io_requests, delta_read_io_bytes, delta_write_io_requests, delta_write_io_bytes
  from gv$active_session_history
 where sample_time >= systimestamp - numtodsinterval({minutes}, 'minute')
   and {ash_where}
 order by sample_time, inst_id, session_id;
spool off
set termout on

--# ash_history
-- Active Session History of the last {minutes} minutes as AWR keeps it: one sample in ten, up to
-- the last snapshot (hourly by default), back as far as AWR is kept. It reads tables; the
-- partitions of the snapshots are found by the time.
prompt Active Session History: spillcast_ash.csv
set termout off
spool spillcast_ash.csv
select to_char(sample_time, 'YYYY-MM-DD HH24:MI:SS.FF3') as sample_time, snap_id, dbid,
       instance_number, session_id, session_serial#, sql_id, sql_exec_id,
       to_char(sql_exec_start, 'YYYY-MM-DD HH24:MI:SS') as sql_exec_start, sql_plan_line_id,
       sql_plan_operation, sql_plan_options, session_state, event, wait_class, p1, p2, p3,
       time_waited, qc_session_id, qc_instance_id, pga_allocated, temp_space_allocated,
       delta_read_io_requests, delta_read_io_bytes, delta_write_io_requests, delta_write_io_bytes
  from dba_hist_active_sess_history
 where sample_time >= systimestamp - numtodsinterval({minutes}, 'minute')
   and {ash_where}
 order by sample_time, instance_number, session_id;
spool off
set termout on

--# sampler
-- In place of Active Session History, without the Diagnostics Pack: V$SESSION is sampled once a
-- second, for {minutes} minutes or until nothing of it was active for a minute. It has neither plan
-- lines nor the lengths of single waits, and the rows appear at the end. Before Oracle 18, write
-- dbms_lock.sleep for dbms_session.sleep.
prompt Samples of V$SESSION for {minutes} minutes at most: spillcast_sessions.csv
set termout off
spool spillcast_sessions.csv
declare
  v_seen number;
  v_idle_s number := 0;
  v_clock number;
  v_weight_us number := 1000000;
begin
  dbms_output.put_line('"SAMPLE_TIME","INST_ID","SESSION_ID","SESSION_SERIAL#","SQL_ID",'
    || '"SQL_EXEC_ID","SQL_EXEC_START","SESSION_STATE","EVENT","WAIT_CLASS","P1","P2","P3",'
    || '"QC_SESSION_ID","QC_INSTANCE_ID","USECS_PER_ROW"');
  for i in 1 .. {minutes} * 60 loop
    v_clock := dbms_utility.get_time;
    v_seen := 0;
    for r in (
      select s.inst_id || ',' || s.sid || ',' || s.serial# || ',"' || s.sql_id || '",'
             || s.sql_exec_id || ',"' || to_char(s.sql_exec_start, 'YYYY-MM-DD HH24:MI:SS') || '","'
             || case s.state when 'WAITING' then 'WAITING","' || s.event || '","' || s.wait_class
                                                 || '",' || s.p1 || ',' || s.p2 || ',' || s.p3
                             else 'ON CPU","","",,,' end
             || ',' || case when x.qcinst_id is not null then x.qcsid end || ',' || x.qcinst_id
             as sample
        from gv$session s
        left join gv$px_session x
          on x.inst_id = s.inst_id and x.sid = s.sid and x.serial# = s.serial#
       where s.status = 'ACTIVE'
         and (s.state <> 'WAITING' or s.wait_class <> 'Idle')
         and s.audsid <> sys_context('userenv', 'sessionid')
         and ({sampler_where})
       order by s.inst_id, s.sid
    ) loop
      v_seen := v_seen + 1;
      dbms_output.put_line(to_char(systimestamp, 'YYYY-MM-DD HH24:MI:SS.FF3') || ',' || r.sample
        || ',' || v_weight_us);
    end loop;
    v_idle_s := case v_seen when 0 then v_idle_s + 1 else 0 end;
    exit when v_idle_s >= 60;
    dbms_session.sleep(greatest(1 - (dbms_utility.get_time - v_clock) / 100, 0.01));
    -- A sample represents the time up to it.
    v_weight_us := (dbms_utility.get_time - v_clock) * 10000;
  end loop;
end;
/
spool off
set termout on

--# end
prompt Done. Put the trace file into this folder, which is one evidence:
prompt   spillcast profile .
prompt   spillcast forecast . --to TARGET
