//! Real traces, if available: the figures were counted by hand, not by the reader.

use std::path::{Path, PathBuf};

use crate::compare::{fast, without_rows};
use crate::slow;
use spillcast_core::oracle::{Dimension, Options, Profile, Reading, read};

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
fn event(path: &Path, name: &str) -> (u64, i64, Reading) {
    let mut profile = Profile::new(vec![Dimension::Event]);
    let reading = read(&[path.to_path_buf()], &Options::default(), &mut profile).unwrap();
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
        let (count, total_us, reading) = event(&path, "SQL*Net message from client");
        assert_eq!((count, total_us), (10_027, client_us));
        assert_eq!(reading.files[0].waits, waits);
        assert_eq!(reading.files[0].damages.count, 0);
        let [(_, times)] = &reading.files[0].sessions[..] else { panic!("one session") };
        assert!((times.elapsed_us as f64 / 1e6 - elapsed_s).abs() < 0.01);
        assert_eq!(times.idle_us, client_us);
    }
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
