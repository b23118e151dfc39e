//! Classifies files by name, age and folder as temporary, other or undecided until they are used.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::UNIX_EPOCH;

use super::event::FileIdentity;
use crate::proc::Stat;
use crate::system::{boot_ns, epoch_ns};

/// How much older than its creating process a file may appear: the clocks of births and of process
/// starts both have a coarse resolution.
const CLOCK_SLACK_NS: i128 = 20_000_000;

/// Classification of a file before it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Temp,
    Other,
    /// Created by the run: its use decides whether it is temporary.
    Made {
        /// It is in a directory for temporary files, or an engine names its temp files like this.
        in_temp_dir: bool,
        identity: Identity,
        /// Its process shares our mount namespace: the path leads to the same file here.
        same_mounts: bool,
    },
}

impl Kind {
    /// Whether a file can be temporary, before its use is known.
    pub(crate) fn may_be_temp(self, unlinked: bool) -> bool {
        match self {
            Kind::Temp => true,
            Kind::Made { in_temp_dir, .. } => in_temp_dir || unlinked,
            Kind::Other => false,
        }
    }
}

/// Identifies a file independently of its name. Inode numbers alone do not: they are reused.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Identity {
    pub ino: u64,
    /// Nanoseconds since the epoch; None on a file system without birth times.
    pub(crate) born_ns: Option<i128>,
}

impl Identity {
    /// The file at a path; links are not followed.
    pub fn of(path: &Path) -> Option<Identity> {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(Identity { ino: metadata.ino(), born_ns: born_ns(&metadata) })
    }
}

/// Classifies files before they are used.
#[derive(Default)]
pub struct TempRules {
    /// Directories that the user named; if there are any, only their files are temporary.
    named: Vec<PathBuf>,
    processes: HashMap<i32, Process>,
    /// State for processes that end before they can be looked up: their own before exec, or that of
    /// their parents.
    inherited: HashMap<i32, Process>,
    /// The first observed process: the default for unknown processes, which it may have started.
    first: Option<Process>,
    /// Earliest start of an observed process, nanoseconds since the epoch.
    earliest_start_ns: Option<i128>,
}

#[derive(Clone)]
struct Process {
    temp_dirs: Vec<PathBuf>,
    /// Whether it shares the mount namespace of this process.
    same_mounts: bool,
}

impl TempRules {
    pub fn new(named: Vec<PathBuf>) -> TempRules {
        TempRules { named: named.into_iter().map(as_shown).collect(), ..TempRules::default() }
    }

    /// Whether a path alone shows that a file is temporary, whatever its use.
    pub(crate) fn is_temp_path(&self, path: &Path) -> bool {
        match self.named.is_empty() {
            true => temp_name_of(path).is_some_and(|name| name.certain),
            false => self.named.iter().any(|dir| path.starts_with(dir)),
        }
    }

    pub fn kind(&mut self, pid: i32, file: &FileIdentity) -> Kind {
        let path = Path::new(&file.path);
        if !file.regular || file.in_memory() {
            return Kind::Other;
        }
        if self.is_temp_path(path) {
            return Kind::Temp;
        }
        if !self.named.is_empty() {
            return Kind::Other;
        }
        let process = self.process(pid);
        let in_temp_dir = temp_name_of(path).is_some()
            || process.temp_dirs.iter().any(|dir| path.starts_with(dir));
        let same_mounts = process.same_mounts;
        let seen = Identity { ino: file.ino, born_ns: file.born_ns };
        let named = || Identity::of(path).filter(|_| same_mounts && !file.unlinked);
        let identity = if seen.born_ns.is_some() { seen } else { named().unwrap_or(seen) };
        let births = identity.born_ns.zip(self.earliest_start_ns);
        if births.is_some_and(|(born, start)| born < start) || is_engine_data(path) {
            return Kind::Other;
        }
        Kind::Made { in_temp_dir, identity, same_mounts }
    }

    /// Looks a process up before its files are classified.
    pub fn observe(&mut self, pid: i32) {
        let process = self.process(pid).clone();
        self.first.get_or_insert(process);
    }

    /// The process executed another program, whose TMPDIR may differ.
    pub(crate) fn exec(&mut self, pid: i32) {
        if let Some(process) = self.processes.remove(&pid) {
            self.inherited.insert(pid, process);
        }
    }

    pub fn fork(&mut self, parent: i32, child: i32) {
        if self.named.is_empty() {
            let process = self.process(parent).clone();
            self.inherited.insert(child, process);
        }
    }

    pub fn exit(&mut self, pid: i32) {
        self.processes.remove(&pid);
        self.inherited.remove(&pid);
    }

    fn process(&mut self, pid: i32) -> &Process {
        self.processes.entry(pid).or_insert_with(|| {
            let inherited = self.inherited.remove(&pid);
            let starts = [self.earliest_start_ns, started_ns(pid).map(|ns| ns - CLOCK_SLACK_NS)];
            self.earliest_start_ns = starts.into_iter().flatten().min();
            Process::look_up(pid).or(inherited).or(self.first.clone()).unwrap_or_default()
        })
    }
}

/// A pattern of the names that an engine gives to its temp files.
pub struct TempName {
    /// The engine's name in the registry of engines.
    pub engine: &'static str,
    /// What such a file contains.
    pub kind: &'static str,
    /// Whether only temp files have such names. If not, a file's use decides, as in TMPDIR.
    certain: bool,
    pattern: &'static str,
}

/// Generated from the registry of engines by `docs/generate_engines.py`.
static TEMP_NAMES: LazyLock<Vec<TempName>> = LazyLock::new(|| {
    let lines = include_str!("temp_names.tsv").lines();
    let fields = lines.map(|line| line.split('\t').collect::<Vec<_>>());
    let name = |fields: Vec<&'static str>| match fields[..] {
        [engine, kind, certainty, pattern] => {
            TempName { engine, kind, certain: certainty == "certain", pattern }
        }
        _ => panic!("temp_names.tsv: {fields:?} are not four fields"),
    };
    fields.map(name).collect()
});

/// Returns a pattern that a path matches, if any; a certain pattern if there is one.
pub fn temp_name_of(path: &Path) -> Option<&'static TempName> {
    let parts: Vec<_> = path.iter().map(OsStr::as_bytes).collect();
    let matching = || TEMP_NAMES.iter().filter(|name| name.matches(&parts));
    matching().find(|name| name.certain).or_else(|| matching().next())
}

impl TempName {
    /// Matches the pattern against the last parts of a path, or against any of its folders if the
    /// pattern ends with a slash.
    fn matches(&self, parts: &[&[u8]]) -> bool {
        let wanted: Vec<_> = self.pattern.trim_end_matches('/').split('/').collect();
        let matches = |parts: &[&[u8]]| {
            wanted.iter().zip(parts).all(|(wanted, part)| matches_pattern(wanted.as_bytes(), part))
        };
        let Some(folders) = parts.len().checked_sub(1) else { return false };
        if self.pattern.ends_with('/') {
            return parts[..folders].windows(wanted.len()).any(matches);
        }
        parts.len().checked_sub(wanted.len()).is_some_and(|first| matches(&parts[first..]))
    }
}

/// Whether a name matches a pattern: `*` stands for any bytes, `?` for a single byte.
fn matches_pattern(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => {
            (0..=name.len()).any(|skipped| matches_pattern(rest, &name[skipped..]))
        }
        ([b'?', rest @ ..], [_, others @ ..]) => matches_pattern(rest, others),
        ([byte, rest @ ..], [first, others @ ..]) => byte == first && matches_pattern(rest, others),
        _ => false,
    }
}

/// Whether it is a relation or WAL of PostgreSQL, a journal of SQLite or DuckDB beside a database,
/// or counters that a JVM maps. They are created and removed like temp files, but lie elsewhere.
fn is_engine_data(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let journal = [&b".wal"[..], b"-wal", b"-journal", b"-shm"];
    let parts: Vec<_> = path.iter().map(OsStr::as_bytes).collect();
    let relation = |two: &[&[u8]]| {
        let tablespace = two[0] == b"base" || two[0].starts_with(b"PG_");
        tablespace && !two[1].is_empty() && two[1].iter().all(u8::is_ascii_digit)
    };
    journal.iter().any(|end| name.ends_with(end))
        || parts.windows(2).any(relation)
        || parts.contains(&&b"pg_wal"[..])
        || parts.iter().any(|part| part.starts_with(b"hsperfdata_"))
}

impl Default for Process {
    fn default() -> Process {
        let temp_dirs = vec![PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
        Process { temp_dirs, same_mounts: true }
    }
}

impl Process {
    /// Returns None for a process that has ended or is ending, whose environment and arguments are
    /// empty. A running process with an empty environment still has arguments.
    fn look_up(pid: i32) -> Option<Process> {
        let read = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let environment = read("environ");
        if environment.is_empty() && read("cmdline").is_empty() {
            return None;
        }
        let tmpdir = environment
            .split(|&byte| byte == 0)
            .find_map(|entry| entry.strip_prefix(b"TMPDIR="))
            .filter(|value| !value.is_empty())
            .map(|value| PathBuf::from(OsString::from_vec(value.to_vec())));
        let temp_dirs = match tmpdir {
            Some(dir) => vec![as_shown(fs::canonicalize(&dir).unwrap_or(dir))],
            None => Process::default().temp_dirs,
        };
        let mounts = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let same_mounts =
            mounts(&pid.to_string()).is_none_or(|theirs| Some(theirs) == mounts("self"));
        Some(Process { temp_dirs, same_mounts })
    }
}

/// Converts a directory to text, like the paths of files: bytes that are not UTF-8 are replaced.
fn as_shown(dir: PathBuf) -> PathBuf {
    dir.to_string_lossy().into_owned().into()
}

/// Birth of a file, nanoseconds since the epoch; None on a file system without birth times.
pub(crate) fn born_ns(file: &Metadata) -> Option<i128> {
    let born = file.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(born.as_nanos() as i128)
}

/// Start of a process in nanoseconds since the epoch.
fn started_ns(pid: i32) -> Option<i128> {
    Some(epoch_ns() - i128::from(boot_ns()) + i128::from(Stat::of(pid)?.start_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> FileIdentity {
        FileIdentity::named(path.to_owned(), false)
    }

    #[test]
    fn engines_are_recognised_by_their_temp_files() {
        let mut rules = TempRules::default();
        let me = std::process::id() as i32;
        for path in [
            "/data/x.db.tmp/duckdb_temp_storage_S96K-0.tmp",
            "/data/.tmp/duckdb_temp_block-12.block",
            "/var/lib/postgresql/18/main/base/pgsql_tmp/pgsql_tmp4711.0",
            "/mnt/nvme/PG_18_202506291/pgsql_tmp/pgsql_tmp4711.2.fileset/i1of4.p0.0",
            "/mnt/local/spark-1f/executor-2/blockmgr-5d/0c/temp_local_9e",
        ] {
            assert_eq!(rules.kind(me, &file(path)), Kind::Temp, "{path}");
        }
        for path in ["/data/etilqs_4a1", "/data/sortAb3Xy9", "/mnt/datafusion-aB3/.tmpX1"] {
            let kind = rules.kind(me, &file(path));
            assert!(matches!(kind, Kind::Made { in_temp_dir: true, .. }), "{path}");
        }
        for path in [
            "/data/x.db.wal",
            "/tmp/x.sqlite-journal",
            "/var/lib/postgresql/18/main/base/5/1259",
            "/mnt/nvme/PG_18_202506291/5/16384.1",
            "/var/lib/postgresql/18/main/pg_wal/000000010000000000000001",
            "/tmp/hsperfdata_spark/4711",
            "/etc/passwd",
        ] {
            assert_eq!(rules.kind(me, &file(path)), Kind::Other, "{path}");
        }
        let kind = |file| TempRules::default().kind(me, &file);
        for path in ["/data/x", "/data/sort", "/data/sorted", "/data/blockmgr-5d"] {
            assert!(matches!(kind(file(path)), Kind::Made { in_temp_dir: false, .. }), "{path}");
        }
        assert_eq!(kind(FileIdentity { regular: false, ..file("/tmp/socket") }), Kind::Other);
        assert_eq!(kind(FileIdentity { unlinked: true, ..file("/memfd:output") }), Kind::Other);
    }

    #[test]
    fn a_named_directory_may_have_a_name_that_is_not_utf8() {
        let named = PathBuf::from(OsString::from_vec(b"/mnt/\xff scratch".to_vec()));
        let shown = named.join("a").to_string_lossy().into_owned();
        assert_eq!(TempRules::new(vec![named]).kind(1, &file(&shown)), Kind::Temp);
    }

    #[test]
    fn named_directories_replace_every_other_rule() {
        let mut rules = TempRules::new(vec![PathBuf::from("/mnt/scratch")]);
        assert_eq!(rules.kind(1, &file("/mnt/scratch/a/b")), Kind::Temp);
        assert_eq!(rules.kind(1, &file("/mnt/scratchy/a")), Kind::Other);
        let spill = file("/data/duckdb_temp_storage_DEFAULT-0.tmp");
        assert_eq!(rules.kind(1, &spill), Kind::Other);
    }
}
