//! Compiles the programs that observe in the kernel, where there is a clang: `CLANG` names another.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

const PROGRAMS: &str = "src/capture/bpf/programs";

fn main() {
    println!("cargo::rerun-if-changed={PROGRAMS}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let processor = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        _ => "x86",
    };
    let object = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("capture.bpf.o");
    let compiled = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-c"])
        .arg(format!("-D__TARGET_ARCH_{processor}"))
        .arg(format!("{PROGRAMS}/capture.bpf.c"))
        .arg("-o")
        .arg(&object)
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "{clang} cannot compile {PROGRAMS}"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // The source then says that it was built without them. A missing file asks again.
            println!("cargo::rerun-if-changed={clang}");
            println!("cargo::warning=there is no {clang}: the bpf capture source is built without");
            fs::write(&object, []).expect("the build directory is writable");
        }
        Err(error) => panic!("{clang}: {error}"),
    }
}
