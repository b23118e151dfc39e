//! What a file's name, age and place say of it: temporary, data, or for its use to decide.

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

/// How much older than its process a file may look that the process made: the clocks of births
/// and of starts both tick.
const TICKS_NS: i128 = 20_000_000;

/// What is known of a file before it is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Temp,
    Other,
    /// Made by the run: its use decides.
    Made {
        /// It lies where its process is to put temporary files, or an engine names its own so.
        in_temp_dir: bool,
        identity: Identity,
        /// Its process has the names that we have.
        same_mounts: bool,
    },
}

impl Kind {
    /// As far as name, age and place say.
    pub fn may_be_temp(self, unlinked: bool) -> bool {
        match self {
            Kind::Temp => true,
            Kind::Made { in_temp_dir, .. } => in_temp_dir || unlinked,
            Kind::Other => false,
        }
    }
}

/// What tells a file from others, whatever its name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Identity {
    pub ino: u64,
    /// Nanoseconds since the epoch; None on a file system that keeps no births. Inodes are used
    /// again.
    pub born_ns: Option<i128>,
}

impl Identity {
    /// Of what a path leads to, links not followed.
    pub fn of(path: &Path) -> Option<Identity> {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(Identity { ino: metadata.ino(), born_ns: born_ns(&metadata) })
    }
}

/// Says of each file what is known of it before it is used.
#[derive(Default)]
pub struct TempRules {
    /// Directories the user named; where there are any, nothing else is temporary.
    named: Vec<PathBuf>,
    /// TMPDIR and start time of each process seen.
    processes: HashMap<i32, Process>,
    /// What a process was before it ran its program, or its parent, for one that ends too soon to be
    /// looked at.
    before: HashMap<i32, Process>,
    /// The first that was observed, which may be what started those that nothing is known of.
    first: Option<Process>,
    /// Earliest start of a process, nanoseconds since the epoch.
    begun_ns: Option<i128>,
}

#[derive(Clone)]
struct Process {
    temp_dirs: Vec<PathBuf>,
    /// It has the mounts that we have.
    same_mounts: bool,
}

impl TempRules {
    pub fn new(named: Vec<PathBuf>) -> TempRules {
        TempRules { named: named.into_iter().map(as_shown).collect(), ..TempRules::default() }
    }

    pub fn kind(&mut self, pid: i32, file: &FileIdentity) -> Kind {
        let path = Path::new(&file.path);
        if !file.regular || file.in_memory() {
            return Kind::Other;
        }
        if !self.named.is_empty() {
            let named = self.named.iter().any(|dir| path.starts_with(dir));
            return if named { Kind::Temp } else { Kind::Other };
        }
        let name = temp_name_of(path);
        if name.is_some_and(|name| name.certain) {
            return Kind::Temp;
        }
        let process = self.process(pid);
        let in_temp_dir =
            name.is_some() || process.temp_dirs.iter().any(|dir| path.starts_with(dir));
        let same_mounts = process.same_mounts;
        let seen = Identity { ino: file.ino, born_ns: file.born_ns };
        let named = || Identity::of(path).filter(|_| same_mounts && !file.unlinked);
        let identity = if seen.born_ns.is_some() { seen } else { named().unwrap_or(seen) };
        let before = identity.born_ns.zip(self.begun_ns).is_some_and(|(born, begun)| born < begun);
        if before || data_of_engine(path) {
            return Kind::Other;
        }
        Kind::Made { in_temp_dir, identity, same_mounts }
    }

    /// A process of which files will be asked.
    pub fn observe(&mut self, pid: i32) {
        let process = self.process(pid).clone();
        self.first.get_or_insert(process);
    }

    /// The process runs another program, whose TMPDIR may be another.
    pub fn renew(&mut self, pid: i32) {
        if let Some(process) = self.processes.remove(&pid) {
            self.before.insert(pid, process);
        }
    }

    /// A process was started by another.
    pub fn started(&mut self, parent: i32, child: i32) {
        if self.named.is_empty() {
            let process = self.process(parent).clone();
            self.before.insert(child, process);
        }
    }

    /// It has ended.
    pub fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
        self.before.remove(&pid);
    }

    fn process(&mut self, pid: i32) -> &Process {
        self.processes.entry(pid).or_insert_with(|| {
            let before = self.before.remove(&pid);
            let begun_ns = [self.begun_ns, started_ns(pid).map(|ns| ns - TICKS_NS)];
            self.begun_ns = begun_ns.into_iter().flatten().min();
            Process::look(pid).or(before).or(self.first.clone()).unwrap_or_default()
        })
    }
}

/// A name by which an engine's temp files are known.
pub struct TempName {
    /// The engine, as the registry of engines has it.
    pub engine: &'static str,
    /// What such a file contains.
    pub kind: &'static str,
    /// Whether only temp files have such names. If not, a file's use decides, as in TMPDIR.
    certain: bool,
    pattern: &'static str,
}

/// All of them, of the registry of engines: `docs/generate_engines.py` writes the file.
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

/// The engine's name for a temp file of this path; None for a name that no engine gives. A name
/// that only temp files have wins.
pub fn temp_name_of(path: &Path) -> Option<&'static TempName> {
    let parts: Vec<_> = path.iter().map(OsStr::as_bytes).collect();
    let matching = || TEMP_NAMES.iter().filter(|name| name.matches(&parts));
    matching().find(|name| name.certain).or_else(|| matching().next())
}

impl TempName {
    /// A pattern is matched against the last parts of a path, or against any of its folders if it
    /// ends with a slash.
    fn matches(&self, parts: &[&[u8]]) -> bool {
        let wanted: Vec<_> = self.pattern.trim_end_matches('/').split('/').collect();
        let alike = |parts: &[&[u8]]| {
            wanted.iter().zip(parts).all(|(wanted, part)| is_alike(wanted.as_bytes(), part))
        };
        let Some(folders) = parts.len().checked_sub(1) else { return false };
        if self.pattern.ends_with('/') {
            return parts[..folders].windows(wanted.len()).any(alike);
        }
        parts.len().checked_sub(wanted.len()).is_some_and(|first| alike(&parts[first..]))
    }
}

/// Whether a name is as the pattern says: `*` stands for any bytes, `?` for a single one.
fn is_alike(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| is_alike(rest, &name[skipped..])),
        ([b'?', rest @ ..], [_, others @ ..]) => is_alike(rest, others),
        ([byte, rest @ ..], [first, others @ ..]) => byte == first && is_alike(rest, others),
        _ => false,
    }
}

/// PostgreSQL's relations and WAL, the journals that SQLite and DuckDB keep beside a database, and the
/// counters that a JVM maps: they come and go like temporary files, but storage for those does not
/// hold them.
fn data_of_engine(path: &Path) -> bool {
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
    /// None where it has ended or is ending. Its memory goes first, and with that what it was
    /// started with; one with an empty environment still has arguments.
    fn look(pid: i32) -> Option<Process> {
        let started_with = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let environment = started_with("environ");
        if environment.is_empty() && started_with("cmdline").is_empty() {
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

/// A directory as the paths of files have it, which are text: bytes that are none are replaced.
fn as_shown(dir: PathBuf) -> PathBuf {
    dir.to_string_lossy().into_owned().into()
}

/// Birth of a file, nanoseconds since the epoch; None on a file system that keeps no births.
pub fn born_ns(file: &Metadata) -> Option<i128> {
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
    fn engines_name_their_temp_files() {
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
    fn a_named_directory_may_have_a_name_that_is_no_text() {
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
