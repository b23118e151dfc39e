//! The functions that the dynamic linker finds in place of the C library's.
//!
//! Programs built with `_FORTIFY_SOURCE` call the `__*_chk` and `__open*_2` forms.

use libc::{
    AT_FDCWD, c_char, c_int, c_uint, c_void, iovec, mode_t, off_t, off64_t, size_t, ssize_t,
};
use spillcast_calls::CallKind;

use crate::next::Next;
use crate::{descriptors, observe};

/// Defines functions, each of which passes the given arguments, and a call of the next function of
/// its name with its own arguments, to a function of `observe`.
macro_rules! interpose {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $return:ty
       $(as $next_type:ty)? => $module:ident::$observe:ident($($given:expr),*);)*) => {$(
        /// # Safety
        /// As for the C library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $return {
            type Function = interpose!(@type ($($type),*) -> $return $(, $next_type)?);
            const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes()
            ) {
                Ok(name) => name,
                Err(_) => panic!("a name without zeros"),
            };
            // SAFETY: the type is that of the function defined here.
            static NEXT: Next<Function> = unsafe { Next::new(NAME) };
            let Some(next) = NEXT.get() else {
                return -1;
            };
            // SAFETY: the caller's arguments are passed on.
            $module::$observe($($given,)* || unsafe { next($($argument),*) })
        }
    )*};
    (@type ($($type:ty),*) -> $return:ty) => { unsafe extern "C-unwind" fn($($type),*) -> $return };
    (@type ($($type:ty),*) -> $return:ty, $next_type:ty) => { $next_type };
}

/// The C declarations end in `...`, for the mode or the argument of an fcntl command; it is passed
/// in the same register either way.
type Open = unsafe extern "C-unwind" fn(*const c_char, c_int, ...) -> c_int;
type OpenAt = unsafe extern "C-unwind" fn(c_int, *const c_char, c_int, ...) -> c_int;
type Control = unsafe extern "C-unwind" fn(c_int, c_int, ...) -> c_int;

interpose! {
    fn read(fd: c_int, data: *mut c_void, bytes: size_t) -> ssize_t
        => observe::io(CallKind::Read, fd, None);
    fn write(fd: c_int, data: *const c_void, bytes: size_t) -> ssize_t
        => observe::io(CallKind::Write, fd, None);
    fn pread(fd: c_int, data: *mut c_void, bytes: size_t, offset: off_t) -> ssize_t
        => observe::io(CallKind::Pread64, fd, Some(offset));
    fn pread64(fd: c_int, data: *mut c_void, bytes: size_t, offset: off64_t) -> ssize_t
        => observe::io(CallKind::Pread64, fd, Some(offset));
    fn pwrite(fd: c_int, data: *const c_void, bytes: size_t, offset: off_t) -> ssize_t
        => observe::io(CallKind::Pwrite64, fd, Some(offset));
    fn pwrite64(fd: c_int, data: *const c_void, bytes: size_t, offset: off64_t) -> ssize_t
        => observe::io(CallKind::Pwrite64, fd, Some(offset));
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
        => observe::io(CallKind::Readv, fd, None);
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
        => observe::io(CallKind::Writev, fd, None);
    fn preadv(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t
        => observe::io(CallKind::Preadv, fd, Some(offset));
    fn preadv64(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t) -> ssize_t
        => observe::io(CallKind::Preadv, fd, Some(offset));
    fn pwritev(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t
        => observe::io(CallKind::Pwritev, fd, Some(offset));
    fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t) -> ssize_t
        => observe::io(CallKind::Pwritev, fd, Some(offset));
    fn preadv2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t
        => observe::io(CallKind::Preadv2, fd, Some(offset));
    fn preadv64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        => observe::io(CallKind::Preadv2, fd, Some(offset));
    fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t
        => observe::io(CallKind::Pwritev2, fd, Some(observe::written_at(offset, flags)));
    fn pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
        => observe::io(CallKind::Pwritev2, fd, Some(observe::written_at(offset, flags)));
    fn __read_chk(fd: c_int, data: *mut c_void, bytes: size_t, room: size_t) -> ssize_t
        => observe::io(CallKind::Read, fd, None);
    fn __pread_chk(fd: c_int, data: *mut c_void, bytes: size_t, offset: off_t, room: size_t) -> ssize_t
        => observe::io(CallKind::Pread64, fd, Some(offset));
    fn __pread64_chk(fd: c_int, data: *mut c_void, bytes: size_t, offset: off64_t, room: size_t) -> ssize_t
        => observe::io(CallKind::Pread64, fd, Some(offset));

    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t
        => observe::seek(fd);
    fn lseek64(fd: c_int, offset: off64_t, whence: c_int) -> off64_t
        => observe::seek(fd);

    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int as Open
        => observe::open(CallKind::Openat);
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int as Open
        => observe::open(CallKind::Openat);
    fn __open_2(path: *const c_char, flags: c_int) -> c_int
        => observe::open(CallKind::Openat);
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int
        => observe::open(CallKind::Openat);
    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int as OpenAt
        => observe::open(CallKind::Openat);
    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int as OpenAt
        => observe::open(CallKind::Openat);
    fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int
        => observe::open(CallKind::Openat);
    fn __openat64_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int
        => observe::open(CallKind::Openat);
    fn creat(path: *const c_char, mode: mode_t) -> c_int
        => observe::open(CallKind::Creat);
    fn creat64(path: *const c_char, mode: mode_t) -> c_int
        => observe::open(CallKind::Creat);

    fn ftruncate(fd: c_int, bytes: off_t) -> c_int
        => observe::change(CallKind::Ftruncate, fd, Some(bytes));
    fn ftruncate64(fd: c_int, bytes: off64_t) -> c_int
        => observe::change(CallKind::Ftruncate, fd, Some(bytes));
    fn fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int
        => observe::change(CallKind::Fallocate, fd, Some(offset));
    fn fallocate64(fd: c_int, mode: c_int, offset: off64_t, bytes: off64_t) -> c_int
        => observe::change(CallKind::Fallocate, fd, Some(offset));
    fn posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int
        => observe::change(CallKind::Fallocate, fd, Some(offset));
    fn posix_fallocate64(fd: c_int, offset: off64_t, bytes: off64_t) -> c_int
        => observe::change(CallKind::Fallocate, fd, Some(offset));
    fn fsync(fd: c_int) -> c_int
        => observe::change(CallKind::Fsync, fd, None);
    fn fdatasync(fd: c_int) -> c_int
        => observe::change(CallKind::Fdatasync, fd, None);
    fn sync_file_range(fd: c_int, offset: off64_t, bytes: off64_t, flags: c_uint) -> c_int
        => observe::change(CallKind::SyncFileRange, fd, None);

    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, bytes: size_t) -> ssize_t
        => observe::copy(CallKind::Sendfile, to, from);
    fn sendfile64(to: c_int, from: c_int, offset: *mut off64_t, bytes: size_t) -> ssize_t
        => observe::copy(CallKind::Sendfile, to, from);
    fn splice(from: c_int, start: *mut off64_t, to: c_int, end: *mut off64_t, bytes: size_t, flags: c_uint) -> ssize_t
        => observe::copy(CallKind::Splice, from, to);
    fn copy_file_range(from: c_int, start: *mut off64_t, to: c_int, end: *mut off64_t, bytes: size_t, flags: c_uint) -> ssize_t
        => observe::copy(CallKind::CopyFileRange, from, to);

    fn truncate(path: *const c_char, bytes: off_t) -> c_int
        => observe::change_named(CallKind::Truncate, (AT_FDCWD, path), Some(bytes));
    fn truncate64(path: *const c_char, bytes: off64_t) -> c_int
        => observe::change_named(CallKind::Truncate, (AT_FDCWD, path), Some(bytes));
    fn unlink(path: *const c_char) -> c_int
        => observe::change_named(CallKind::Unlink, (AT_FDCWD, path), None);
    fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int
        => observe::unlink_at(directory, path, flags);
    // The C library makes this system call by itself.
    fn remove(path: *const c_char) -> c_int
        => observe::change_named(CallKind::Unlink, (AT_FDCWD, path), None);

    fn close(fd: c_int) -> c_int
        => observe::close(fd);
    fn fclose(stream: *mut libc::FILE) -> c_int
        // SAFETY: the caller's stream is open until the call.
        => observe::close_stream(unsafe { descriptors::of_stream(stream) });
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int
        => observe::close_range(first, last);

    fn dup(fd: c_int) -> c_int
        => observe::duplicate(CallKind::Dup, fd);
    fn dup2(fd: c_int, duplicate: c_int) -> c_int
        => observe::duplicate(CallKind::Dup2, fd);
    fn dup3(fd: c_int, duplicate: c_int, flags: c_int) -> c_int
        => observe::duplicate(CallKind::Dup3, fd);
    fn fcntl(fd: c_int, command: c_int, argument: size_t) -> c_int as Control
        => observe::control(fd, command);
    fn fcntl64(fd: c_int, command: c_int, argument: size_t) -> c_int as Control
        => observe::control(fd, command);
}
