//! Children of a server that are observed once their title matches.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use spillcast_core::capture::{CallKind, Capture, SOURCES, TempRules};

/// A server whose child starts a process that spills, then one with a thread that spills later, and
/// sets its title in between.
const SERVER: &str = r#"
read line
(
    dd if=/dev/zero of="$1/spill" bs=8192 count=5 2>/dev/null &
    python3 -c '
import sys, threading, time
def spill():
    time.sleep(0.5)
    with open(sys.argv[1], "wb", buffering=0) as file:
        for _ in range(5):
            file.write(bytes(8192))
threading.Thread(target=spill).start()
' "$1/later" &
    sleep 0.2
    exec -a "$TITLE" sleep 2
)
"#;

#[test]
fn a_grandchild_started_before_the_title_is_observed_with_its_parent() {
    let (_, open) = SOURCES[0];
    for (title, writes) in [("worker for 77", 10), ("worker for 775", 0)] {
        let Ok(source) = open(CallKind::ALL) else {
            return eprintln!("SKIPPED what_a_child_starts: eBPF takes root");
        };
        let folder = tempfile::tempdir().unwrap();
        let mut server = Command::new("bash");
        server.args(["-c", SERVER, "server"]).arg(folder.path()).env("TITLE", title);
        let mut server = server.stdin(Stdio::piped()).spawn().unwrap();
        let mut session = Command::new("sleep").arg("60").spawn().unwrap();
        let rules = TempRules::new(vec![folder.path().into()]);
        let mut capture = Capture::start(source, &[session.id() as i32], rules).unwrap();
        capture.attach_children(server.id() as i32, "worker for 77").unwrap();
        server.stdin.take().unwrap().write_all(b"\n").unwrap();
        server.wait().unwrap();
        while fs::metadata(folder.path().join("later")).map_or(0, |meta| meta.len()) < 5 * 8192 {
            sleep(Duration::from_millis(10));
        }
        sleep(Duration::from_millis(100));
        capture.stop();
        session.kill().unwrap();
        session.wait().unwrap();
        assert_eq!(capture.status().counts.temp_writes, writes, "{title}");
    }
}
