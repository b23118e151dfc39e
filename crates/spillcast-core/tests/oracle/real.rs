//! Real traces, if available: the figures were counted by hand, not by the reader.

use std::path::{Path, PathBuf};

use crate::compare::{fast, rows, without_rows};
use crate::slow;
use spillcast_core::oracle::{Dimension, Options, Profile, ReadError, Reading, read};

/// A trace in the shared folder, or None if it is absent.
fn real(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let path = folder.join(name);
    if !path.exists() {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    }
    Some(path)
}

/// Number and total time in microseconds of an event's waits.
fn event(path: &Path, lenient: bool, name: &str) -> (u64, i64, Reading) {
    let mut profile = Profile::new(vec![Dimension::Event]);
    let options = Options { lenient, ..Options::default() };
    let reading = read(&[path.to_path_buf()], &options, &mut profile).unwrap();
    let names = reading.dictionary.events.list();
    let of_event = |at: Option<i64>| at.is_some_and(|at| names[at as usize] == name);
    let group = profile.groups().iter().find(|(key, _)| of_event(key.get(Dimension::Event)));
    let (_, group) = group.expect(name);
    (group.count, group.total_us, reading)
}

#[test]
fn times_of_one_job_at_two_network_latencies() {
    for (name, waits, client_us, elapsed_s) in [
        ("jks_ot_cdb1_3802_12ms_010.trc", 20_067, 127_966_267, 129.35),
        ("jks_ot_cdb1_30547_1ms_010.trc", 20_064, 15_606_345, 16.14),
    ] {
        let Some(path) = real(name) else { return };
        let (count, total_us, reading) = event(&path, false, "SQL*Net message from client");
        assert_eq!((count, total_us), (10_027, client_us));
        assert_eq!(reading.files[0].waits, waits);
        assert_eq!(reading.files[0].damages.count, 0);
        let [(_, times)] = &reading.files[0].sessions[..] else { panic!("one session") };
        assert!((times.elapsed_us as f64 / 1e6 - elapsed_s).abs() < 0.01);
        assert_eq!(times.idle_us, client_us);
    }
}

#[test]
fn waits_quoted_in_running_text_are_read_only_on_request() {
    let Some(path) = real("mvelikikh_direct_path_temp_excerpt_19c.txt") else { return };
    let (count, total_us, _) = event(&path, true, "direct path write temp");
    assert_eq!((count, (total_us as f64 / 100.0).round() / 10.0), (52, 35.8));
    let (count, total_us, _) = event(&path, true, "direct path read temp");
    assert_eq!((count, (total_us as f64 / 100.0).round() / 10.0), (4, 1.8));
    let error = rows(&path, &Options::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("no waits and no calls of an extended SQL trace in"),
        "{error}"
    );
    assert!(error.to_string().contains("--lenient"), "{error}");
}

#[test]
fn a_trace_of_another_kind_is_refused() {
    let Some(path) = real("jks_lgwr_17884.trc") else { return };
    let error = rows(&path, &Options::default()).unwrap_err();
    assert!(matches!(error, ReadError::NoTraceLines { waits_in_text: 0, .. }), "{error}");
}

#[test]
fn intact_traces_show_no_damage_and_equal_the_slow_reader() {
    for name in [
        "jks_demos_js12c1_ora_21055.trc",
        "jks_orabinds_js122a1_ora_9039.trc",
        "jks_ot_cdb1_30547_1ms_010.trc",
        "jks_ot_cdb1_5390_TRUNC-TEST.trc",
        "jks_ot_combine_main.trc",
        "techwanker_dev18b_ora_813.trc",
    ] {
        let Some(path) = real(name) else { return };
        let bytes = std::fs::read(path).unwrap();
        for chunk_bytes in [1 << 10, 1 << 20] {
            let rows = fast(&bytes, false, chunk_bytes);
            assert_eq!(rows.damaged_lines, [] as [u64; 0], "{name}");
            assert!(rows == without_rows(slow::read(&bytes, false)), "{name} in {chunk_bytes}");
        }
    }
}

#[test]
fn the_cpu_time_of_recursive_calls_counts_once() {
    let Some(path) = real("techwanker_dev18b_ora_813.trc") else { return };
    let (_, batch) = rows(&path, &Options::default()).unwrap();
    let all: i64 = batch.calls.iter().map(|row| row.1.line.e).sum();
    let once: i64 = batch.calls.iter().map(|row| row.1.self_e_us).sum();
    let share = (all - once) as f64 / all as f64;
    assert!((0.12..0.16).contains(&share), "adding all calls counts {share} twice");
}
