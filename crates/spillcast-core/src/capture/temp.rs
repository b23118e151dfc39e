//! Which files are temporary: by the engines' names, by having no name left, by where they lie.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::event::FileIdentity;
use super::joined::{start_ticks, ticks_per_s};
use super::proc::{ended, number};

/// Decides for each file whether it is temporary.
#[derive(Default)]
pub struct TempRules {
    /// Directories the user named; where there are any, nothing else is temporary.
    named: Vec<PathBuf>,
    /// TMPDIR and start time of each process seen.
    processes: HashMap<i32, Process>,
    /// What a process was before it ran its program, or its parent, for one that ends too soon to be
    /// looked at.
    before: HashMap<i32, Process>,
}

#[derive(Clone)]
struct Process {
    temp_dirs: Vec<PathBuf>,
    /// Seconds since the epoch.
    started_s: i64,
}

impl TempRules {
    pub fn new(named: Vec<PathBuf>) -> TempRules {
        TempRules { named: named.into_iter().map(as_shown).collect(), ..TempRules::default() }
    }

    pub fn is_temp(&mut self, pid: i32, file: &FileIdentity) -> bool {
        let path = Path::new(&file.path);
        if !file.regular || file.in_memory() {
            return false;
        }
        if !self.named.is_empty() {
            return self.named.iter().any(|dir| path.starts_with(dir));
        }
        file.unlinked || named_by_engine(path) || self.made_in_tmpdir(pid, path)
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
            Process::look(pid).or(before).unwrap_or_default()
        })
    }

    /// Under TMPDIR and younger than the process: a database that merely lies there is older, or is
    /// told apart by `--temp`.
    fn made_in_tmpdir(&mut self, pid: i32, path: &Path) -> bool {
        let process = self.process(pid);
        process.temp_dirs.iter().any(|dir| path.starts_with(dir))
            && !looks_like_database(path)
            && born_s(path).is_none_or(|born_s| born_s >= process.started_s)
    }
}

/// DuckDB's `duckdb_temp_storage_*.tmp` and `duckdb_temp_block-*`, PostgreSQL's `pgsql_tmp`.
fn named_by_engine(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_bytes().starts_with(b"duckdb_temp_") || path.iter().any(|part| part == "pgsql_tmp")
}

fn looks_like_database(path: &Path) -> bool {
    let kinds = ["db", "duckdb", "wal", "sqlite", "parquet", "csv"];
    path.extension().is_some_and(|found| kinds.iter().any(|kind| found == *kind))
}

impl Default for Process {
    fn default() -> Process {
        let temp_dirs = vec![PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
        Process { temp_dirs, started_s: 0 }
    }
}

impl Process {
    /// None where it has ended.
    fn look(pid: i32) -> Option<Process> {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if environment.is_empty() && ended(pid) {
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
        Some(Process { temp_dirs, started_s: started_s(pid).unwrap_or(0) })
    }
}

/// A directory as the paths of files have it, which are text: bytes that are none are replaced.
fn as_shown(dir: PathBuf) -> PathBuf {
    dir.to_string_lossy().into_owned().into()
}

/// Start of a process in whole seconds since the epoch, rounded down.
fn started_s(pid: i32) -> Option<i64> {
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot_s = number(&boot, "btime ")? as i64;
    Some(boot_s + start_ticks(pid)? / ticks_per_s() - 1)
}

/// Birth of a file in seconds since the epoch; None when it is gone or the file system keeps none.
fn born_s(path: &Path) -> Option<i64> {
    let born = fs::symlink_metadata(path).ok()?.created().ok()?;
    Some(born.duration_since(UNIX_EPOCH).ok()?.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> FileIdentity {
        let path = path.to_owned();
        FileIdentity { path, dev: 1, ino: 1, regular: true, unlinked: false, position: None }
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
        ] {
            assert!(rules.is_temp(me, &file(path)), "{path}");
        }
        for path in ["/data/x.db", "/var/lib/postgresql/18/main/base/5/1259", "/etc/hostname"] {
            assert!(!rules.is_temp(me, &file(path)), "{path}");
        }
        assert!(rules.is_temp(me, &FileIdentity { unlinked: true, ..file("/data/x") }));
        assert!(!rules.is_temp(me, &FileIdentity { regular: false, ..file("/tmp/socket") }));
        assert!(!rules.is_temp(me, &FileIdentity { unlinked: true, ..file("/memfd:output") }));
    }

    #[test]
    fn a_named_directory_may_have_a_name_that_is_no_text() {
        let named = PathBuf::from(OsString::from_vec(b"/mnt/\xff scratch".to_vec()));
        let shown = named.join("a").to_string_lossy().into_owned();
        assert!(TempRules::new(vec![named]).is_temp(1, &file(&shown)));
    }

    #[test]
    fn named_directories_replace_every_other_rule() {
        let mut rules = TempRules::new(vec![PathBuf::from("/mnt/scratch")]);
        assert!(rules.is_temp(1, &file("/mnt/scratch/a/b")));
        assert!(!rules.is_temp(1, &file("/mnt/scratchy/a")));
        assert!(!rules.is_temp(1, &file("/data/duckdb_temp_storage_DEFAULT-0.tmp")));
    }
}
