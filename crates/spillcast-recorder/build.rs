//! Embeds the preload libraries named by `SPILLCAST_PRELOAD_GNU` and `_MUSL`, or none.

use std::env;
use std::fs;
use std::path::Path;

fn main() {
    let out = env::var("OUT_DIR").expect("cargo sets it");
    for library in ["gnu", "musl"] {
        let name = format!("SPILLCAST_PRELOAD_{}", library.to_uppercase());
        println!("cargo::rerun-if-env-changed={name}");
        let bytes = match env::var(&name) {
            Ok(path) => {
                println!("cargo::rerun-if-changed={path}");
                fs::read(&path).unwrap_or_else(|error| panic!("{name}: {path}: {error}"))
            }
            Err(_) => Vec::new(),
        };
        let path = Path::new(&out).join(format!("preload-{library}.so"));
        fs::write(path, bytes).expect("the build directory is writable");
    }
}
