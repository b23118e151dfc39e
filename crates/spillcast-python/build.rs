//! Refuses a wheel without the preload library, which maturin would silently omit.

use std::env;
use std::path::Path;

fn main() {
    let library = Path::new("../../python/spillcast/_preload.so");
    println!("cargo::rerun-if-changed={}", library.display());
    println!("cargo::rerun-if-env-changed=PYO3_BUILD_EXTENSION_MODULE");
    // maturin sets this variable, cargo alone does not.
    let packed = env::var_os("PYO3_BUILD_EXTENSION_MODULE").is_some();
    if packed && !library.exists() {
        println!("cargo::error=the preload library is not built: run make wheel, or make build");
    }
}
