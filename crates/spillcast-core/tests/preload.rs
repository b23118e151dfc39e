//! Real programs under the preload library: their reports, and their unchanged behaviour.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use spillcast_core::capture::preload::PreloadSource;
use spillcast_core::capture::{Call, CallKind, Event, FileIdentity, Source};

const RING_BYTES: usize = 8 << 20;

/// The library, built with this test's profile in its target directory.
fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().ok()?;
        let profile_dir = test.parent()?.parent()?;
        let profile = match profile_dir.file_name()?.to_str()? {
            "debug" => "dev",
            name => name,
        };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "spillcast-preload", "--profile", profile])
            .arg("--target-dir")
            .arg(profile_dir.parent()?)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .ok()?;
        assert!(status.success(), "cargo build --package spillcast-preload");
        let library = profile_dir.join("libspillcast_preload.so");
        library.exists().then_some(library)
    });
    if built.is_none() {
        eprintln!("SKIPPED: libspillcast_preload.so is not in this test's target directory");
    }
    built.as_deref()
}

/// A separate directory for one test.
struct Scratch(tempfile::TempDir);

impl Scratch {
    /// None if there is no library to test.
    fn new() -> Option<Scratch> {
        library().map(|_| Scratch(tempfile::tempdir().unwrap()))
    }

    /// The path of a file as shown in /proc.
    fn file(&self, name: &str) -> String {
        self.0.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned()
    }
}

/// A Python program whose `sys.argv[1:]` are `arguments`.
fn python(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-S", "-c", program]).args(arguments);
    command
}

fn observed(command: &mut Command, source: &PreloadSource) -> Child {
    let (name, value) = source.environment().unwrap();
    start(command.env(name, value))
}

fn start(command: &mut Command) -> Child {
    command
        .env("LD_PRELOAD", library().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finish(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Output of a command, and the events that it reported.
fn reported(command: &mut Command) -> (String, Vec<Event>) {
    let mut source = PreloadSource::create(RING_BYTES).unwrap();
    let printed = finish(observed(command, &source));
    (printed, drained(&mut source))
}

fn drained(source: &mut PreloadSource) -> Vec<Event> {
    let mut events = Vec::new();
    source.drain(&mut events, true);
    assert_eq!(source.observed().lost, 0);
    events
}

/// The calls on one file, each with the file of its descriptor, as a reader would track it.
fn calls_on(events: &[Event], path: &str) -> Vec<(Call, FileIdentity)> {
    let mut files: HashMap<(i32, i32), FileIdentity> = HashMap::new();
    let mut calls = Vec::new();
    for event in events {
        match event {
            Event::File { pid, fd, file } => {
                files.insert((*pid, *fd), file.clone());
            }
            Event::Call(call, _) => {
                let file = match call.kind {
                    CallKind::Close => files.remove(&(call.pid, call.fd)),
                    _ => files.get(&(call.pid, call.fd)).cloned(),
                };
                if let Some(file) = file.filter(|file| file.path == path) {
                    calls.push((*call, file));
                }
            }
            Event::Named { .. } => (),
            other => panic!("{other:?}"),
        }
    }
    calls
}

type Brief = (CallKind, i32, Option<i64>, i64);

/// CPython chooses which of the two vectored forms with an offset it calls.
fn brief(kind: CallKind, fd: i32, offset: Option<i64>, ret: i64) -> Brief {
    let kind = match kind {
        CallKind::Preadv2 => CallKind::Preadv,
        CallKind::Pwritev2 => CallKind::Pwritev,
        kind => kind,
    };
    (kind, fd, offset, ret)
}

#[test]
fn every_call_is_reported_with_its_arguments() {
    let Some(scratch) = Scratch::new() else { return };
    let path = scratch.file("data");
    let program = "
import errno, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b'a' * 8192)
os.pwrite(fd, b'b' * 4096, 1 << 20)
os.lseek(fd, 100, os.SEEK_SET)
os.read(fd, 50)
os.pread(fd, 8192, 4096)
os.preadv(fd, [bytearray(10), bytearray(20)], 7)
os.pwritev(fd, [b'xy', b'z'], 3)
os.readv(fd, [bytearray(5)])
os.writev(fd, [b'12', b'345'])
os.pread(fd, 10, 1 << 30)
try:
    os.pread(fd, 10, -1)
    sys.exit(1)
except OSError as error:
    assert error.errno == errno.EINVAL
copy = os.dup(fd)
os.write(copy, b'123')
os.close(fd)
os.close(copy)
again = os.open(sys.argv[1], os.O_RDONLY)
os.read(again, 3)
os.close(again)
r, w = os.pipe()
os.write(w, b'not a regular file')
os.read(r, 100)
print(os.getpid(), fd, copy, again, oct(os.stat(sys.argv[1]).st_mode))
";
    let mut source = PreloadSource::create(RING_BYTES).unwrap();
    let printed = finish(observed(&mut python(program, &[&path]), &source));
    let words: Vec<&str> = printed.split_whitespace().collect();
    let [pid, fd, copy, again] = [0, 1, 2, 3].map(|i| words[i].parse::<i32>().unwrap());
    assert_eq!(words[4], "0o100600");

    let events = drained(&mut source);
    assert!(source.observed().connected);
    let calls = calls_on(&events, &path);
    use CallKind::*;
    let expected = [
        (Write, fd, None, 8192),
        (Pwrite64, fd, Some(1 << 20), 4096),
        (Lseek, fd, None, 100),
        (Read, fd, None, 50),
        (Pread64, fd, Some(4096), 8192),
        (Preadv, fd, Some(7), 30),
        (Pwritev, fd, Some(3), 3),
        (Readv, fd, None, 5),
        (Writev, fd, None, 5),
        (Pread64, fd, Some(1 << 30), 0),
        (Pread64, fd, None, -i64::from(libc::EINVAL)),
        (Fcntl, fd, None, copy.into()),
        // Two descriptors share the position: 100, 50 read, 5 read, 5 written.
        (Write, copy, Some(160), 3),
        (Close, fd, None, 0),
        (Close, copy, None, 0),
        (Read, again, None, 3),
        (Close, again, None, 0),
    ];
    let reported: Vec<Brief> =
        calls.iter().map(|(call, _)| brief(call.kind, call.fd, call.offset, call.ret)).collect();
    assert_eq!(reported, expected);

    let stat = fs::metadata(&path).unwrap();
    for (call, file) in &calls {
        assert_eq!((call.pid, call.tid), (pid, pid));
        assert!(call.start_ns <= call.end_ns);
        assert_eq!(call.blocked.is_some(), call.kind.is_io());
        assert_eq!((file.dev, file.ino), (stat.dev(), stat.ino()));
        assert!(file.regular && !file.unlinked);
    }
    assert!(calls[3].0.cpu_before_ns.is_some_and(|ns| ns > 0));
    let of_copy = calls.iter().find(|(call, _)| call.fd == copy).unwrap();
    assert_eq!(of_copy.1.position, Some(160));
    let opens = events.iter().filter(|event| {
        matches!(event, Event::Call(call, _) if call.pid == pid && call.fd == -1
            && call.ret == i64::from(fd) && matches!(call.kind, Open | Openat))
    });
    assert!(opens.count() >= 1);
}

#[test]
fn threads_and_forked_processes_report_separately() {
    let Some(scratch) = Scratch::new() else { return };
    let path = scratch.file("data");
    fs::write(&path, vec![1u8; 1 << 20]).unwrap();
    let program = "
import os, sys, threading
fd = os.open(sys.argv[1], os.O_RDONLY)
def read(): [os.pread(fd, 1000 + i, i) for i in range(500)]
threads = [threading.Thread(target=read) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
child = os.fork()
if child == 0:
    read()
    os._exit(0)
os.waitpid(child, 0)
print(os.getpid(), child)
";
    let (printed, events) = reported(&mut python(program, &[&path]));
    let ids: Vec<i32> = printed.split_whitespace().map(|id| id.parse().unwrap()).collect();
    let mut by_thread: HashMap<(i32, i32), Vec<(i64, i64)>> = HashMap::new();
    for (call, _) in calls_on(&events, &path) {
        if call.kind == CallKind::Pread64 {
            let reads = by_thread.entry((call.pid, call.tid)).or_default();
            assert_eq!(call.cpu_before_ns.is_none(), reads.is_empty());
            reads.push((call.offset.unwrap(), call.ret));
        }
    }
    let expected: Vec<(i64, i64)> = (0..500).map(|i| (i, 1000 + i)).collect();
    assert!(by_thread.values().all(|reads| *reads == expected));
    assert_eq!(by_thread.keys().filter(|(pid, _)| *pid == ids[0]).count(), 4);
    assert_eq!(by_thread.keys().filter(|(pid, tid)| *pid == ids[1] && pid == tid).count(), 1);
    assert_eq!(by_thread.len(), 5);
}

#[test]
fn a_file_unlinked_after_its_open_is_reported() {
    let Some(scratch) = Scratch::new() else { return };
    let path = scratch.file("data");
    let program = "
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.unlink(sys.argv[1])
os.write(fd, b'spill')
";
    let (_, events) = reported(&mut python(program, &[&path]));
    let calls = calls_on(&events, &path);
    assert_eq!(calls.len(), 1);
    assert!(calls[0].1.unlinked);
    let removed = |event: &&Event| match event {
        Event::Named { call, path: named, .. } => (call.kind, named) == (CallKind::Unlink, &path),
        _ => false,
    };
    assert_eq!(events.iter().filter(removed).count(), 1);
}

#[test]
fn errno_is_kept_if_a_descriptor_became_a_pipe_unnoticed() {
    let Some(scratch) = Scratch::new() else { return };
    let path = scratch.file("data");
    fs::write(&path, "12").unwrap();
    let program = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.dup(os.open(sys.argv[1], os.O_RDONLY))
os.read(fd, 1)
near, far = os.pipe()
os.write(far, b'1')
assert libc.syscall(int(sys.argv[2]), near, fd, 0) == fd
ctypes.set_errno(0)
assert libc.read(fd, ctypes.create_string_buffer(1), 1) == 1
print(ctypes.get_errno())
";
    let (printed, events) = reported(&mut python(program, &[&path, &libc::SYS_dup3.to_string()]));
    assert_eq!(printed, "0\n");
    let reads = calls_on(&events, &path);
    let of_pipe = reads.iter().rfind(|(call, _)| call.kind == CallKind::Read).unwrap();
    assert_eq!(of_pipe.0.offset, None);
}

#[test]
fn errno_is_kept_for_a_stream_without_a_descriptor() {
    let Some(_scratch) = Scratch::new() else { return };
    let program = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.fmemopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fmemopen(None, 8, b'w'))
ctypes.set_errno(0)
assert libc.fclose(stream) == 0
print(ctypes.get_errno())
";
    assert_eq!(reported(&mut python(program, &[])).0, "0\n");
}

/// Two rounds of 1,000 writes and reads of all so far, then a line on stdin; prints digests.
const WORK: &str = "
import hashlib, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
def work(first):
    for i in range(first, first + 1000): os.pwrite(fd, b'%08d' % i * 1024, i * 8192)
    digest = hashlib.sha256()
    for i in range(first + 1000): digest.update(os.pread(fd, 8192, i * 8192))
    print(digest.hexdigest(), flush=True)
work(0)
sys.stdin.readline()
work(1000)
";
const WORK_CALLS: u64 = 1_000 + 1_000 + 1_000 + 2_000;

fn plain_result() -> String {
    let scratch = Scratch::new().unwrap();
    let mut command = python(WORK, &[&scratch.file("data")]);
    finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
}

#[test]
fn a_full_ring_loses_records_and_does_not_affect_the_program() {
    let Some(scratch) = Scratch::new() else { return };
    let slots = 256;
    let mut source = PreloadSource::create(64 * slots).unwrap();
    let printed = finish(observed(&mut python(WORK, &[&scratch.file("data")]), &source));
    assert_eq!(printed, plain_result());
    let mut events = Vec::new();
    source.drain(&mut events, true);
    assert!(events.len() <= slots);
    assert!(source.observed().lost >= WORK_CALLS - slots as u64, "{}", source.observed().lost);
}

#[test]
fn a_program_outlives_its_reader() {
    let Some(scratch) = Scratch::new() else { return };
    let expected = plain_result();

    let source = PreloadSource::create(RING_BYTES).unwrap();
    let program = observed(&mut python(WORK, &[&scratch.file("dropped")]), &source);
    assert_eq!(result_with(program, || drop(source)), expected);

    let mut reader = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_reader_to_be_killed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ring = BufReader::new(reader.stdout.take().unwrap())
        .lines()
        .find_map(|line| Some(line.unwrap().split_once("RING=")?.1.to_owned()))
        .unwrap();
    let program = start(python(WORK, &[&scratch.file("killed")]).env("SPILLCAST_RING", &ring));
    let kill = || {
        assert!(Path::new(&ring).exists());
        reader.kill().unwrap();
        reader.wait().unwrap();
    };
    assert_eq!(result_with(program, kill), expected);

    // A killed reader leaves nothing behind.
    let program = start(python(WORK, &[&scratch.file("absent")]).env("SPILLCAST_RING", &ring));
    assert_eq!(finish(program), expected);
}

/// The output of [`WORK`] when `half_way` runs between its rounds.
fn result_with(mut program: Child, half_way: impl FnOnce()) -> String {
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    half_way();
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let second: String = output.lines().map(|line| line.unwrap() + "\n").collect();
    assert!(program.wait().unwrap().success());
    first + &second
}

#[test]
#[ignore = "a process that another test starts and kills"]
fn a_reader_to_be_killed() {
    let source = PreloadSource::create(RING_BYTES).unwrap();
    println!("RING={}", source.environment().unwrap().1);
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn the_delay_is_within_the_call_and_only_in_one_directory() {
    let Some(scratch) = Scratch::new() else { return };
    let slow_dir = scratch.file("slow:er");
    fs::create_dir(&slow_dir).unwrap();
    let slow = scratch.file("slow:er/data");
    let plain = scratch.file("slow:er.data");
    let program = "
import os, sys, time
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    start = time.monotonic_ns()
    for i in range(10): os.pwrite(fd, b'x' * 100, i * 100)
    middle = time.monotonic_ns()
    for i in range(10): os.pread(fd, 100, i * 100)
    print(middle - start, time.monotonic_ns() - middle)
    os.pread(fd, 100, 1000)
    os.close(fd)
";
    let (read_ns, write_ns) = (20_000_000, 50_000_000);
    let delay = format!("{}:{read_ns}:{write_ns}", slow_dir);
    let mut source = PreloadSource::create(RING_BYTES).unwrap();
    let mut command = python(program, &[&slow, &plain]);
    command.env("SPILLCAST_DELAY", &delay);
    let with_ring = finish(observed(&mut command, &source));
    let without_ring = finish(start(command.env_remove("SPILLCAST_RING")));
    for printed in [with_ring, without_ring] {
        let times: Vec<u64> = printed.split_whitespace().map(|ns| ns.parse().unwrap()).collect();
        assert!(times[0] >= 10 * write_ns && times[1] >= 10 * read_ns, "{times:?}");
    }
    let events = drained(&mut source);
    let calls = calls_on(&events, &slow);
    let moved = |calls: &[(Call, FileIdentity)]| -> Vec<Call> {
        let moved = calls.iter().filter(|(call, _)| call.kind.is_io() && call.ret > 0);
        moved.map(|&(call, _)| call).collect()
    };
    let elapsed_ns = |call: &Call| call.end_ns - call.start_ns;
    assert_eq!(moved(&calls).len(), 20);
    for call in moved(&calls) {
        let delay_ns = if call.kind == CallKind::Pread64 { read_ns } else { write_ns };
        assert!(elapsed_ns(&call) >= delay_ns);
        assert_eq!(call.blocked, Some(true));
    }
    // The one other file: with a delay, none of its writes could be shorter than the delay.
    let others = moved(&calls_on(&events, &plain));
    assert_eq!(others.len(), 20);
    assert!(others.iter().any(|call| elapsed_ns(call) < read_ns));
}

#[test]
fn a_cancelled_thread_unwinds_and_fortified_calls_are_seen() {
    let Some(scratch) = Scratch::new() else { return };
    let program = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static int ends[2];
static void *wait_for_ever(void *path) {
    char data[16];
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (write(fd, "0123456789", 10) != 10) exit(2);
    size_t asked = (size_t)lseek(fd, 0, SEEK_END);
    if (pread(fd, data, asked, 0) != 10) exit(3);
    lseek(fd, 4, SEEK_SET);
    if (read(fd, data, asked) != 6) exit(4);
    if (read(ends[0], data, asked)) exit(5);
    return 0;
}
int main(int count, char **arguments) {
    pthread_t thread;
    void *result;
    if (pipe(ends) || pthread_create(&thread, 0, wait_for_ever, arguments[count - 1])) exit(6);
    usleep(200000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    return result == PTHREAD_CANCELED ? 0 : 7;
}
"#;
    let (code, binary) = (scratch.file("cancel.c"), scratch.file("cancel"));
    fs::write(&code, program).unwrap();
    let compiled = Command::new("cc")
        .args(["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-pthread", "-o"])
        .args([&binary, &code])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no C compiler");
        return;
    }
    let path = scratch.file("data");
    let (_, events) = reported(Command::new(&binary).arg(&path));
    let calls = calls_on(&events, &path);
    let returned: Vec<i64> = calls.iter().map(|(call, _)| call.ret).collect();
    assert_eq!(returned, [10, 10, 10, 4, 6]);
}
