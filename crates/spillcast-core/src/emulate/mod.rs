//! Storage that you do not own: a directory whose files are read and written as slowly as asked.
//!
//! A FUSE file system shows the directory `backing` at a mount point. Every read and write is done
//! on the backing file and completes no earlier than the [`Delay`] says; nothing else is delayed.
//! The page cache is bypassed on the mount, so each call of a program pays.
//!
//! What limits it: [`WORKERS`] operations are in the making at once; the kernel lets writes that
//! extend one file pass one at a time; mapped files are cached as usual.

mod backing;
mod delay;
mod filesystem;
mod guard;
mod listings;
mod nodes;
mod stats;

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::system::raise_descriptor_limit;
use fuser::{BackgroundSession, Config, MountOption, SessionACL};

pub use delay::Delay;
use filesystem::Passthrough;
pub use filesystem::WORKERS;
use guard::Guard;
use stats::Counters;
pub use stats::Stats;

/// A mounted directory; unmounted when it is dropped, also where the process is killed.
pub struct Emulation {
    mountpoint: PathBuf,
    counters: Arc<Counters>,
    /// None once it is unmounted.
    mounted: Option<(BackgroundSession, Guard)>,
}

impl Emulation {
    /// Shows `backing` at `mountpoint`, an empty directory, with the latencies of `model`.
    ///
    /// Raises the soft limit of open files of this process to its hard limit: one descriptor is held
    /// for every file the kernel knows of.
    pub fn mount(backing: &Path, mountpoint: &Path, model: Delay) -> io::Result<Emulation> {
        let mountpoint = mountpoint.canonicalize().map_err(|error| at(mountpoint, &error))?;
        check_mountpoint(&mountpoint)?;
        raise_descriptor_limit();
        let counters = Arc::new(Counters::default());
        let files = Passthrough::new(backing, model, counters.clone())
            .map_err(|error| at(backing, &error))?;
        let guard = Guard::start(&mountpoint)?;
        let session = fuser::spawn_mount(files, &mountpoint, &config()).map_err(|error| {
            let remedy = "FUSE needs /dev/fuse, and root or the program fusermount3";
            io::Error::new(error.kind(), format!("{}: {error}; {remedy}", mountpoint.display()))
        })?;
        let emulation = Emulation { mountpoint, counters, mounted: Some((session, guard)) };
        if !is_mountpoint(&emulation.mountpoint)? {
            return Err(at(&emulation.mountpoint, "mounted, yet it is not a mount point"));
        }
        Ok(emulation)
    }

    /// What was done on the mount so far.
    pub fn stats(&self) -> Stats {
        self.counters.stats()
    }

    /// Unmounts; files that programs have open there keep working until they are closed.
    pub fn unmount(mut self) -> io::Result<()> {
        self.detach();
        match is_mountpoint(&self.mountpoint)? {
            false => Ok(()),
            true => Err(at(&self.mountpoint, "still mounted; `umount -l` it")),
        }
    }

    fn detach(&mut self) {
        if let Some((session, guard)) = self.mounted.take() {
            // Unmounts where nobody has a file open; the guard then detaches what is left.
            drop(session);
            drop(guard);
        }
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.detach();
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("spillcast".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
    ];
    // Root often mounts for a server that runs as a user of its own. Others may not ask for it
    // unless /etc/fuse.conf says so.
    config.acl = match unsafe { libc::geteuid() } {
        0 => SessionACL::All,
        _ => SessionACL::Owner,
    };
    config.n_threads = Some(WORKERS);
    config
}

fn check_mountpoint(mountpoint: &Path) -> io::Result<()> {
    if fs::read_dir(mountpoint).map_err(|error| at(mountpoint, &error))?.next().is_some() {
        return Err(at(mountpoint, "not empty; name an empty directory to mount at"));
    }
    if is_mountpoint(mountpoint)? {
        return Err(at(mountpoint, "already a mount point; name a directory in it"));
    }
    Ok(())
}

fn is_mountpoint(path: &Path) -> io::Result<bool> {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
    let (here, above) = (device(path), device(&path.join("..")));
    Ok(here.map_err(|error| at(path, &error))? != above?)
}

fn at(path: &Path, what: impl Display) -> io::Error {
    io::Error::other(format!("{}: {what}", path.display()))
}
