//! The guarantees of the reader on small traces: units, sessions, opaque text, damage.

use std::io::Write;
use std::path::PathBuf;

use crate::compare::rows;
use spillcast_core::oracle::{
    Batch, KEPT_PER_FILE, Options, Profile, ReadError, Reading, STATEMENT_BYTES_MAX, read,
};
use spillcast_core::wait::Op;

fn file(text: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text).unwrap();
    file
}

fn read_text(text: &str) -> (Reading, Batch) {
    rows(file(text.as_bytes()).path(), &Options::default()).unwrap()
}

fn damages(reading: &Reading) -> Vec<(u64, &str)> {
    reading.files[0].damages.first.iter().map(|damage| (damage.line, damage.fault)).collect()
}

const HEAD: &str = "Trace file /u01/trace/x_ora_1.trc\n";

#[test]
fn a_wait_becomes_a_row() {
    let (reading, batch) = read_text(
        "*** SESSION ID:(35.65385) 2024-03-26T16:08:36.086107-07:00\n\
         WAIT #140691456823824: nam='direct path read temp' ela= 13700 file number=203 \
         first dba=2827236 block cnt=31 obj#=99574 tim=25786537823120\n",
    );
    let [(origin, wait)] = &batch.waits[..] else { panic!("one wait") };
    assert_eq!(reading.dictionary.events.list(), ["direct path read temp"]);
    assert_eq!((wait.start_us, wait.elapsed_us), (25_786_537_823_120 - 13_700, 13_700));
    assert_eq!((wait.class.op, wait.class.temp, wait.class.idle), (Op::Read, true, false));
    assert_eq!((wait.file, wait.blocks, wait.bytes), (Some(203), Some(31), None));
    let session = reading.dictionary.sessions[origin.session].number();
    assert_eq!((session, wait.object, origin.line), (Some(35), Some(99_574), 2));
    assert_eq!(wait.params, [203, 2_827_236, 31]);
}

#[test]
fn oracle_8i_has_centiseconds_and_waits_without_times() {
    let (_, batch) = read_text(&format!(
        "{HEAD}Oracle8i Enterprise Edition Release 8.1.7.0.0 - Production\n\
         PARSE #1:c=1,e=2,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=4,tim=500\n\
         WAIT #1: nam='db file scattered read' ela= 3 p1=4 p2=77 p3=16\n\
         WAIT #1: nam='db file scattered read' ela= 1 p1=4 p2=93 p3=16\n"
    ));
    assert_eq!(batch.calls[0].1.line.e, 20_000);
    let [(_, first), (_, second)] = &batch.waits[..] else { panic!("two waits") };
    assert_eq!((first.start_us, first.elapsed_us, second.start_us), (5_000_000, 30_000, 5_030_000));
    assert_eq!((first.file, first.blocks), (Some(4), Some(16)));
}

#[test]
fn the_clock_of_waits_in_11_1_0_7_is_corrected() {
    let (_, batch) = read_text(&format!(
        "{HEAD}Oracle Database 11g Enterprise Edition Release 11.1.0.7.0 - 64bit Production\n\
         WAIT #1: nam='db file sequential read' ela= 24 file#=1 block#=2 blocks=1 obj#=3 tim=1000000\n\
         FETCH #1:c=0,e=9,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=4,tim=1024000\n"
    ));
    assert_eq!(batch.waits[0].1.start_us, 1_024_000 - 24);
    assert_eq!(batch.calls[0].1.line.tim, 1_024_000);
}

#[test]
fn sql_text_and_bind_values_are_opaque() {
    let fake = "WAIT #9: nam='fake' ela= 1 p1=1 p2=2 p3=3 obj#=-1 tim=9";
    let sql = format!("select '\n{fake}\n' from dual");
    let (reading, batch) = read_text(&format!(
        "=====================\n\
         PARSING IN CURSOR #3 len={} dep=0 uid=5 oct=3 lid=5 tim=100 hv=462 ad='9d' sqlid='0gjpt6cdt5vxb'\n\
         {sql}\nEND OF STMT\nBINDS #3:\n Bind#0\n  kxsbbbfp=7f  bln=32  avl={:02}  flg=05\n  value=\"a\n{fake}\nb\"\n\
         WAIT #3: nam='real' ela= 1 p1=1 p2=2 p3=3 obj#=-1 tim=200\n",
        sql.len(),
        fake.len() + 4,
    ));
    assert_eq!(reading.dictionary.events.list(), ["real"]);
    assert_eq!(reading.dictionary.sql.list(), ["0gjpt6cdt5vxb"]);
    assert_eq!(batch.waits[0].0.sql, Some(0));
    assert_eq!(batch.statements[0].1.text, sql.as_bytes());
    assert_eq!(reading.files[0].damages.count, 0);
}

/// A value ends with its quote, whatever its stated length.
#[test]
fn a_bind_value_may_hold_calls_and_waits() {
    let calls = "EXEC #7:c=10000000,e=10000000,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=900\n\
                 WAIT #7: nam='fake' ela= 1 p1=1 p2=2 p3=3 obj#=-1 tim=901\n";
    let real = "EXEC #3:c=5,e=6,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=200\n";
    for length in ["", "  bln=32  avl=05  flg=05\n", "  bln=32  avl=07  flg=05\n"] {
        let (reading, batch) = read_text(&format!(
            "BINDS #3:\n Bind#0\n{length}  value=\"JKSTILL\n{calls}end\"\n{real}"
        ));
        let cpu: Vec<i64> = batch.calls.iter().map(|row| row.1.line.c).collect();
        assert_eq!((cpu, batch.waits.len()), (vec![5], 0), "{length:?}");
        assert_eq!(reading.files[0].damages.count, 0, "{length:?}");
    }
}

#[test]
fn an_unclosed_bind_value_ends_after_a_limit() {
    let wait = |tim: u32| format!("WAIT #3: nam='a' ela= 1 p1=1 p2=2 p3=3 obj#=-1 tim={tim}\n");
    let waits: String = (0..100).map(|i| wait(1_000_000 + i)).collect();
    let (reading, batch) =
        read_text(&format!("BINDS #3:\n Bind#0\n bln=32  avl=04\n  value=\"open\n{waits}"));
    // "open" and its line end exceed the stated length by one byte; 4,000 are allowed.
    let lost = (4_000 - 1_usize).div_ceil(wait(1_000_000).len());
    assert_eq!(batch.waits.len(), 100 - lost);
    assert_eq!(damages(&reading), [(5 + lost as u64, "bind value without a closing quote")]);
}

#[test]
fn unclosed_text_does_not_swallow_the_rest() {
    let (reading, batch) = read_text(
        "PARSING IN CURSOR #3 len=8 dep=0 uid=5 oct=3 lid=5 tim=100 hv=462 ad='9d'\n\
         select 1\n\
         WAIT #3: nam='a' ela= 1 p1=1 p2=2 p3=3 obj#=-1 tim=200\n\
         \x20 bln=32  avl=04  flg=05\n\
         \x20 value=\"open\n\
         XCTEND rlbk=0, rd_only=1\n\
         WAIT #3: nam='b' ela= 1 p1=1 p2=2 p3=3 obj#=-1 tim=300\n\
         PARSING IN CURSOR #3 len=900 dep=0 uid=5 oct=3 lid=5 tim=400 hv=463 ad='9d'\n\
         cut her\n\
         Trace file /u01/trace/next_ora_2.trc\n\
         WAIT #3: nam='c' ela= 1 p1=1 p2=2 p3=3 obj#=-1 tim=500\n",
    );
    assert_eq!(reading.dictionary.events.list(), ["a", "b", "c"]);
    let lines: Vec<u64> = damages(&reading).iter().map(|damage| damage.0).collect();
    assert_eq!(lines, [3, 6, 10]);
    assert_eq!(batch.waits[2].0.sql, None);
}

#[test]
fn each_damaged_line_is_counted_and_named() {
    let (reading, batch) = read_text(
        "WAIT #1: nam='a' ela= -7 p1=1 p2=2 p3=3 obj#=-1 tim=200\n\
         WAIT #1: nam='a' ela= 5 p1=1 p2=\n\
         FETCH #1:c=0,e=153,p=1\n\
         anything else\n\
         WAIT #1: nam='a' ela= 5 p1=1 p2=2 p3=3 obj#=-1 ti",
    );
    assert_eq!(
        damages(&reading),
        [
            (1, "ela= below zero: the wait is counted apart"),
            (2, "WAIT with a parameter that is not a number"),
            (3, "call without c=, e= or tim="),
            (5, "WAIT with text after its last figure"),
        ]
    );
    assert_eq!((batch.waits.len(), reading.files[0].waits_unmeasured), (0, 1));
}

#[test]
fn a_wait_of_unknown_length_is_not_in_the_time_of_its_session() {
    let (reading, batch) = read_text(
        "WAIT #1: nam='a' ela= 10 p1=1 p2=2 p3=3 obj#=-1 tim=100\n\
         WAIT #1: nam='a' ela= -900 p1=1 p2=2 p3=3 obj#=-1 tim=200\n\
         WAIT #1: nam='a' ela= 99999999999999 p1=1 p2=2 p3=3 obj#=-1 tim=300\n\
         WAIT #1: nam='a' ela= 30 p1=1 p2=2 p3=3 obj#=-1 tim=400\n",
    );
    let lengths: Vec<i64> = batch.waits.iter().map(|row| row.1.elapsed_us).collect();
    assert_eq!(lengths, [10, 30]);
    assert_eq!((reading.files[0].waits, reading.files[0].waits_unmeasured), (2, 2));
    let (_, times) = &reading.files[0].sessions[0];
    assert_eq!((times.wait_us, times.elapsed_us), (40, 310));
    assert_eq!(damages(&reading).iter().map(|damage| damage.0).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_trace_starts_with_the_start_of_its_first_wait() {
    let wait = |ela: u32, tim: u32| {
        format!("WAIT #1: nam='a' ela= {ela} p1=1 p2=2 p3=3 obj#=-1 tim={tim}\n")
    };
    let (reading, _) = read_text(&[wait(9_000, 10_000), wait(500, 11_000)].concat());
    let (_, times) = &reading.files[0].sessions[0];
    assert_eq!((times.first_tim_us, times.elapsed_us), (Some(1_000), 10_000));
    assert_eq!(times.unaccounted_us(), 500);
    // Pieces appended after a header, and with a clock that went back: each has a start of its own.
    let pieces = [&wait(9_000, 9_010_000), HEAD, &wait(70, 80_000), &wait(5, 80_100)].concat();
    let (reading, _) = read_text(&pieces);
    assert_eq!(reading.files[0].sessions[0].1.elapsed_us, 9_000 + 170);
    let (reading, _) = read_text(&[wait(9_000, 9_010_000), wait(70, 80_000)].concat());
    assert_eq!(reading.files[0].sessions[0].1.elapsed_us, 9_000 + 70);
}

#[test]
fn all_damage_is_counted_and_the_first_lines_are_kept() {
    let (reading, _) = read_text(&format!(
        "EXEC #1:c=0,e=1,dep=0,tim=5\n{}",
        "WAIT #\n".repeat(3 * KEPT_PER_FILE)
    ));
    assert_eq!(reading.files[0].damages.count, 3 * KEPT_PER_FILE as u64);
    assert_eq!(reading.files[0].damages.first.len(), KEPT_PER_FILE);
}

#[test]
fn a_too_long_line_is_damage_for_any_chunk_size() {
    let wait = "WAIT #1: nam='a' ela= 5 p1=1 p2=2 p3=3 obj#=-1 tim=9\n";
    let text = [wait, &"x".repeat(3 << 20), "\n", wait].concat();
    for chunk_bytes in [1 << 10, 1 << 20, 1 << 23] {
        let options = Options { chunk_bytes, ..Options::default() };
        let (reading, batch) = rows(file(text.as_bytes()).path(), &options).unwrap();
        assert_eq!(damages(&reading), [(2, "line longer than 1 MiB")]);
        assert_eq!((batch.waits.len(), reading.files[0].lines), (2, 3));
    }
}

#[test]
fn a_too_long_line_loses_no_earlier_line_of_a_quoted_trace() {
    let wait = "> WAIT #1: nam='a' ela= 5 p1=1 p2=2 p3=3 obj#=-1 tim=9\n";
    let text = [&wait.repeat(40_000), "> ", &"x".repeat(3 << 20), "\n", wait].concat();
    for chunk_bytes in [256 << 10, 1 << 23] {
        let options = Options { chunk_bytes, pasted: true, ..Options::default() };
        let (reading, batch) = rows(file(text.as_bytes()).path(), &options).unwrap();
        assert_eq!(damages(&reading), [(40_001, "line longer than 1 MiB")]);
        assert_eq!((batch.waits.len(), reading.files[0].lines), (40_001, 40_002));
    }
}

#[test]
fn numbers_and_times_before_lines_are_removed() {
    let lines = "EXEC #1:c=0,e=7,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=5\n\
                 WAIT #1: nam='direct path write temp' ela= 5 p1=1 p2=2 p3=3 obj#=-1 tim=6\n\
                 WAIT #1: nam='direct path read temp' ela= 8 p1=1 p2=2 p3=3 obj#=-1 tim=9\n";
    let options = Options { pasted: true, ..Options::default() };
    let marks: [fn(usize) -> String; 5] = [
        |line| format!("{:6}\t", line + 8),
        |line| format!("{}:", line + 8),
        |line| format!("2024-11-12T09:00:{line:02}.{:03}Z ", line * 7),
        |line| format!("2024-11-12T09:00:00{}Z ", [".5", ".25", ""][line]),
        |line| format!("[09:00:{line:02}] "),
    ];
    for mark in marks {
        let numbered = |(at, line)| format!("{}{line}\n", mark(at));
        let text: String = lines.lines().enumerate().map(numbered).collect();
        let (reading, batch) = rows(file(text.as_bytes()).path(), &options).unwrap();
        assert_eq!((batch.waits.len(), reading.files[0].damages.count), (2, 0), "{text}");
    }
}

#[test]
fn compressed_traces_are_read_and_truncation_is_damage() {
    let line = "WAIT #1: nam='a' ela= 5 p1=1 p2=2 p3=3 obj#=-1 tim=9\n";
    let text: String =
        (0..20_000).map(|i| line.replace('9', &format!("{}", 1_000 + i * 7))).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for packed in [&gzip, &zstd] {
        let whole = rows(file(packed).path(), &Options::default()).unwrap();
        assert_eq!((whole.0.files[0].waits, whole.0.files[0].damages.count), (20_000, 0));
        let cut = rows(file(&packed[..packed.len() / 2]).path(), &Options::default()).unwrap();
        assert!((1..20_000).contains(&cut.0.files[0].waits));
        assert_eq!(damages(&cut.0).last().unwrap().1, "compressed file cut short");
    }
}

#[test]
fn sessions_of_a_merged_file_are_kept_apart() {
    let wait = |tim: u32| format!("WAIT #3: nam='a' ela= 5 p1=1 p2=2 p3=3 obj#=-1 tim={tim}\n");
    let sql = |id: &str| {
        format!(
            "PARSING IN CURSOR #3 len=1 dep=0 uid=5 oct=3 lid=5 tim=50 hv=1 ad='9d' sqlid='{id}'\nx\nEND OF STMT\n"
        )
    };
    let (reading, batch) = read_text(
        &[
            "*** [ Unix process pid: 9850 ]\n",
            &sql("one"),
            &wait(100),
            "*** [ Unix process pid: 9854 ]\n",
            &sql("two"),
            &wait(200),
            "*** [ Unix process pid: 9850 ]\n",
            &wait(1_100),
        ]
        .concat(),
    );
    let sql: Vec<_> = batch.waits.iter().map(|row| row.0.sql).collect();
    assert_eq!(sql, [Some(0), Some(1), Some(0)]);
    let elapsed: Vec<_> = reading.files[0].sessions.iter().map(|s| s.1.elapsed_us).collect();
    assert_eq!(elapsed, [1_050, 150]);
}

#[test]
fn several_files_are_read_in_their_order() {
    let files: Vec<_> =
        (0..40).map(|i| file(format!("EXEC #1:c={i},e=1,dep=0,tim=9\n").as_bytes())).collect();
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().into()).collect();
    let mut profile = Profile::new(vec![]);
    let reading = read(&paths, &Options::default(), &mut profile).unwrap();
    assert_eq!(reading.files.len(), 40);
    let longest = profile.groups()[0].1.max_at;
    assert_eq!((longest.file, longest.line), (39, 1));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let mut profile = Profile::new(vec![]);
    let error = read(&["/nowhere/x.trc".into()], &Options::default(), &mut profile).unwrap_err();
    assert!(matches!(error, ReadError::File { .. }));
    assert!(error.to_string().starts_with("/nowhere/x.trc: "), "{error}");
}

const PARSED: &str = "PARSING IN CURSOR #3 len=1 dep=0 uid=5 oct=3 lid=5 tim=50 hv=1 ad='9d' \
                      sqlid='4q7zf0d2m8kcx'\nx\nEND OF STMT\n";

#[test]
fn lines_of_a_plan_become_rows() {
    let (reading, batch) = read_text(&format!(
        "{PARSED}WAIT #3: nam='a' ela= 5 p1=1 p2=2 p3=3 obj#=-1 tim=60\n\
         STAT #3 id=1 cnt=50 pid=0 pos=1 obj=0 op='HASH JOIN  (cr=7 pr=98 pw=92 str=1 time=800 us \
         cost=5 size=31 card=1)'\n\
         STAT #3 id=2 cnt=4 pid=1 pos=2 obj=71 op='TABLE ACCESS FULL (cr=A) (cr=6 r=5 w=0 time=7 us)'\n\
         STAT #3 id=3 cnt=4 pid=1 pos=2 obj=71 op='TABLE ACCESS FULL BIG '\n"
    ));
    let [(origin, join), (_, old), (_, bare)] = &batch.row_sources[..] else { panic!("three") };
    assert_eq!((origin.line, origin.sql), (5, Some(0)));
    assert_eq!(reading.dictionary.sql.list(), ["4q7zf0d2m8kcx"]);
    assert_eq!((join.op.as_str(), join.id, join.pid, join.cnt), ("HASH JOIN", 1, 0, 50));
    assert_eq!((join.cr, join.pr, join.pw), (Some(7), Some(98), Some(92)));
    assert_eq!((join.starts, join.time_us), (Some(1), Some(800)));
    assert_eq!((old.op.as_str(), old.obj), ("TABLE ACCESS FULL (cr=A)", 71));
    assert_eq!((old.pr, old.pw, old.starts), (Some(5), Some(0), None));
    assert_eq!((bare.op.as_str(), bare.pr), ("TABLE ACCESS FULL BIG", None));
}

#[test]
fn bind_values_become_rows_for_any_chunk_size() {
    let value = |n: usize| format!("  value=\"line {n}\nWAIT #3: of {n}\n\"\n");
    let block = |n: usize| {
        format!(
            "BINDS #3:\n\n Bind#0\n  oacdty=01 mxl=32(11)\n  bln=32  avl=30  flg=05\n{}\x20Bind#1\n  oacdty=02 mxl=22(22)\n  value={n}\n Bind#2\n  oacdty=01 mxl=32(00)\n\
             EXEC #3:c=1,e=2,dep=0,tim={}\n",
            value(n),
            100 + n
        )
    };
    let text = (0..40).fold(PARSED.to_string(), |text, n| text + &block(n));
    for chunk_bytes in [1, 37, 200, 1 << 20] {
        let options = Options { chunk_bytes, binds: true, ..Options::default() };
        let (reading, batch) = rows(file(text.as_bytes()).path(), &options).unwrap();
        assert_eq!((reading.files[0].damages.count, batch.binds.len()), (0, 120));
        for (n, three) in batch.binds.chunks(3).enumerate() {
            let binds_read: Vec<_> =
                three.iter().map(|(_, bind)| (bind.position, bind.kind)).collect();
            assert_eq!(binds_read, [(0, Some(1)), (1, Some(2)), (2, Some(1))]);
            let text = |at: usize| three[at].1.value.as_deref().map(String::from_utf8_lossy);
            assert_eq!(text(0).unwrap(), format!("line {n}\nWAIT #3: of {n}\n"));
            assert_eq!((text(1).unwrap().into_owned(), text(2)), (n.to_string(), None));
        }
    }
    let (_, none) = read_text(&text);
    assert_eq!(none.binds, []);
}

#[test]
fn a_multi_line_bind_value_is_kept_up_to_a_limit() {
    let long = "x".repeat(STATEMENT_BYTES_MAX);
    let call = "EXEC #3:c=5,e=6,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=200";
    let more = "more\n".repeat(100);
    let text = format!("BINDS #3:\n Bind#0\n  value=\"{long}\n{more}end\"\n{call}\n");
    let options = Options { binds: true, ..Options::default() };
    let (_, batch) = rows(file(text.as_bytes()).path(), &options).unwrap();
    let value = batch.binds[0].1.value.as_deref().unwrap();
    assert!(value.len() <= STATEMENT_BYTES_MAX && long.as_bytes().starts_with(value));
}

#[test]
fn each_wait_in_a_line_of_running_text_is_read() {
    let wait = "WAIT #3: nam='a' ela= 5 p1=1 p2=2 p3=3 obj#=-1 tim=70";
    let text = format!("A line: {wait}1 FETCH #3:c=0,e=1,tim=703 {wait}9 and more\n");
    let options = Options { lenient: true, ..Options::default() };
    let (_, batch) = rows(file(text.as_bytes()).path(), &options).unwrap();
    let ends: Vec<_> =
        batch.waits.iter().map(|(_, wait)| wait.start_us + wait.elapsed_us).collect();
    assert_eq!(ends, [701, 709]);
}

#[test]
fn timestamps_of_a_trace_are_parsed() {
    let at = |stamp: &str| {
        let wait = "WAIT #3: nam='a' ela= 5 p1=1 p2=2 p3=3 obj#=-1 tim=7000000\n";
        let (reading, _) = read_text(&format!("*** {stamp}\n{wait}"));
        reading.files[0].sessions[0].1.local_less_tim_us.map(|us| us + 7_000_000)
    };
    // From `date -u -d '2024-02-29 23:59:58' +%s`.
    assert_eq!(at("2024-02-29 23:59:58.5"), Some(1_709_251_198_500_000));
    assert_eq!(at("2024-02-29T23:59:58.000007-05:00 (PDB1(3))"), Some(1_709_251_198_000_007));
    assert_eq!(at("1970-01-01 00:00:07.000"), Some(7_000_000));
    for none in ["2024-13-01 00:00:00.0", "2024-02-29", "MODULE NAME:(x) 2024-02-29 23:59:58.5"] {
        assert_eq!(at(none), None);
    }
}
