//! Emulates a storage: a FUSE mount that reads and writes files as slowly as the model says.
//!
//! The mount shows the directory `backing`. Every read and write is done on the backing file and
//! answered when the [`Model`] says. Opening, renaming, removing and truncating files, and fsync
//! beyond what it writes, are as fast as the backing directory.
//!
//! Without the page cache each call of a program is one request of up to 1 MiB. With it the kernel
//! reads ahead and writes late; as root the mount may hold as much dirty memory as a disk,
//! otherwise FUSE's 1 %. Closing a file writes its dirty pages, which a disk does not require.
//!
//! Limits: [`WORKERS`] operations are in progress at once; the kernel lets writes that extend one
//! file pass one at a time; mapped files are cached as usual.
//!
//! A process must not use a mount that it serves: killed while it waits for itself, it would hang.

mod backing;
mod bare;
mod filesystem;
mod floor;
mod guard;
mod listings;
mod nodes;
mod pace;
mod passthrough;
mod sleep;
mod stats;

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::mounts::{mounted_at, mounts};
use crate::storage::Model;
use crate::system::{raise_descriptor_limit, wake_in_time};
use fuser::{BackgroundSession, Config, MountOption, SessionACL};

pub(crate) use filesystem::WORKERS;
pub use floor::{Floor, FloorPoint};
use guard::Guard;
use pace::Pace;
use passthrough::Passthrough;
pub use stats::{OpStats, Stats};

/// A mounted directory; unmounted when it is dropped, also if the process is killed.
pub struct Emulation {
    mountpoint: PathBuf,
    pace: Arc<Pace>,
    /// None once it is unmounted.
    mounted: Option<(Guard, BackgroundSession)>,
}

impl Emulation {
    /// Shows `backing` at `mountpoint`, an empty directory, with the latencies of `model`. With
    /// `page_cache` the kernel's page cache is in front of them, as it is for a disk.
    ///
    /// Errors: InvalidInput if one of the directories cannot be used; the text names the remedy.
    ///
    /// Raises the soft limit of open files of this process to its hard limit: one descriptor is
    /// held for every file that the kernel refers to.
    pub fn mount(
        backing: &Path,
        mountpoint: &Path,
        model: Model,
        page_cache: bool,
    ) -> io::Result<Emulation> {
        let (backing, mountpoint) = check(backing, mountpoint)?;
        raise_descriptor_limit();
        let pace = Arc::new(Pace::default());
        let files = Passthrough::new(&backing, pace.clone(), page_cache)
            .map_err(|error| at(&backing, &error))?;
        let guard = Guard::start(&mountpoint)?;
        let session = serve(files, &mountpoint, page_cache)
            .map_err(|error| not_mounted(&mountpoint, &error))?;
        let emulation = Emulation { mountpoint, pace, mounted: Some((guard, session)) };
        let mountpoint = &emulation.mountpoint;
        let Some(device) = device_at(mountpoint)? else {
            return Err(at(mountpoint, "mounted, yet it is not a mount point"));
        };
        if page_cache {
            allow_dirty_pages(&device);
        }
        let floor = Floor::measure(mountpoint, WORKERS).map_err(|error| at(mountpoint, &error))?;
        emulation.pace.begin(model, floor);
        Ok(emulation)
    }

    /// The mount's own overhead, which is subtracted from each latency.
    pub fn floor(&self) -> Floor {
        self.pace.floor()
    }

    /// The operations on the mount so far.
    pub fn stats(&self) -> Stats {
        self.pace.stats()
    }

    /// Whether it is still mounted: a privileged user may unmount it.
    pub fn is_mounted(&self) -> io::Result<bool> {
        Ok(device_at(&self.mountpoint)?.is_some())
    }

    /// Unmounts; files that programs have open there keep working, as fast as they can, until they
    /// are closed.
    pub fn unmount(mut self) -> io::Result<()> {
        self.detach();
        match self.is_mounted()? {
            false => Ok(()),
            true => Err(at(
                &self.mountpoint,
                "still mounted; detach it with `fusermount3 -u -z`, or as root with `umount -l`",
            )),
        }
    }

    fn detach(&mut self) {
        if let Some((guard, session)) = self.mounted.take() {
            self.pace.end();
            drop(guard);
            drop(session);
        }
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.detach();
    }
}

/// The reason why nothing could be mounted at an existing directory, and what FUSE needs.
fn not_mounted(mountpoint: &Path, error: &io::Error) -> io::Error {
    let needs = "FUSE needs /dev/fuse, root or fusermount3, and CAP_SYS_ADMIN in a container";
    if error.kind() != io::ErrorKind::NotFound {
        return at(mountpoint, format!("{}; {needs}", error.to_string().trim_end()));
    }
    let missing = if Path::new("/dev/fuse").exists() { "fusermount3" } else { "/dev/fuse" };
    io::Error::other(format!("there is no {missing}; {needs}"))
}

/// The device, such as `0:52`, of the mount at an absolute path.
fn device_at(mountpoint: &Path) -> io::Result<Option<String>> {
    Ok(mounted_at(&mounts()?, mountpoint).map(|mount| mount.device.clone()))
}

/// Mounts, and starts the serving threads: they inherit the settings of the starting thread.
fn serve(files: Passthrough, mountpoint: &Path, page_cache: bool) -> io::Result<BackgroundSession> {
    let start = || {
        wake_in_time();
        if page_cache {
            write_unthrottled();
        }
        keep_buffers_out_of_the_heap();
        fuser::spawn_mount(files, mountpoint, &config())
    };
    std::thread::scope(|scope| scope.spawn(start).join()).expect("mounting does not panic")
}

/// Lets the mount on `device`, such as `0:52`, hold as many dirty pages as any disk.
///
/// The kernel limits each FUSE mount to 1 % of the dirty memory that it allows, even while the rest
/// is unused. Only root may lift that; the setting ends with the mount.
fn allow_dirty_pages(device: &str) {
    let settings = Path::new("/sys/class/bdi").join(device);
    // Kernels before 6.2 have no strict_limit; there the ratio has to suffice.
    let _ = fs::write(settings.join("max_ratio"), "100");
    let _ = fs::write(settings.join("strict_limit"), "0");
}

/// Lets this thread, and those it starts, write dirty pages back without dirty throttling, in which
/// they would wait for themselves. Only root may.
fn write_unthrottled() {
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

/// Each worker gets a cleared buffer of 16 MiB, of which little is ever used. Newly mapped, it
/// takes no memory; glibc would take those of a second mount from its heap, and clear them: 1 GiB.
fn keep_buffers_out_of_the_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointer is passed, and the option may be set at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 8 << 20);
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("spillcast".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
    ];
    // Root often mounts for a server that runs as another user. Only root may admit other users
    // unless /etc/fuse.conf permits it.
    config.acl = match rustix::process::geteuid().is_root() {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    config.n_threads = Some(WORKERS);
    config
}

/// Returns the directories as absolute paths without links, if they can be used.
fn check(backing: &Path, mountpoint: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let not_mounted = |path: &Path| match device_at(path)? {
        None => Ok(()),
        Some(_) => {
            Err(unusable(mountpoint, "already a mount point; name a directory in it, or umount it"))
        }
    };
    // A mount that is no longer served cannot even be resolved.
    not_mounted(&std::path::absolute(mountpoint)?)?;
    let resolved = |path: &Path| match path.canonicalize() {
        Ok(resolved) if resolved.is_dir() => Ok(resolved),
        Ok(_) => Err(unusable(path, "not a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(unusable(path, "there is no such directory; make it"))
        }
        Err(error) => Err(at(path, &error)),
    };
    let (backing, at_mountpoint) = (resolved(backing)?, resolved(mountpoint)?);
    not_mounted(&at_mountpoint)?;
    if fs::read_dir(&at_mountpoint).map_err(|error| at(mountpoint, &error))?.next().is_some() {
        return Err(unusable(mountpoint, "not empty; name an empty directory to mount at"));
    }
    if at_mountpoint.starts_with(&backing) {
        let fault = "lies in the directory that it would show; name one outside of it";
        return Err(unusable(mountpoint, fault));
    }
    Ok((backing, at_mountpoint))
}

fn unusable(path: &Path, fault: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {fault}", path.display()))
}

fn at(path: &Path, fault: impl Display) -> io::Error {
    io::Error::other(format!("{}: {fault}", path.display()))
}
