//! What a mount needs to be written to through the page cache.

use std::fs;
use std::path::Path;

/// Lets the mount on `device`, such as `0:52`, hold as many dirty pages as any disk.
///
/// The kernel keeps a FUSE mount to 1 % of what may be dirty, by itself and at once. Only root may
/// lift that; it ends with the mount.
pub fn allow_dirty_pages(device: &str) {
    let settings = Path::new("/sys/class/bdi").join(device);
    // Kernels before 6.2 have no strict_limit to set; there the ratio alone has to do.
    let _ = fs::write(settings.join("max_ratio"), "100");
    let _ = fs::write(settings.join("strict_limit"), "0");
}

/// Lets this thread, and those it starts, write what others made dirty without waiting until that
/// is less, which would be waiting for itself. Only root may.
pub fn write_unthrottled() {
    let _ = rustix::process::configure_io_flusher_behavior(true);
}
