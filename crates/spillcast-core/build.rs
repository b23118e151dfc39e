//! Compiles the eBPF programs, with clang or ziglang's clang; `SPILLCAST_BPF=no` leaves them out.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAMS: &str = "src/capture/bpf/programs";
/// The virtual environment of `make build`, relative to this crate.
const VENV_PYTHON: &str = "../../.venv/bin/python";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={PROGRAMS}");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=SPILLCAST_BPF");
    let object = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("capture.bpf.o");
    match env::var("SPILLCAST_BPF").as_deref() {
        // An empty object makes the source report that it was built without the programs.
        Ok("no") => fs::write(&object, []).expect("the build directory is writable"),
        Ok("" | "yes") | Err(_) => compile(&object),
        Ok(other) => fail(&format!("SPILLCAST_BPF={other}: give yes or no")),
    }
}

fn compile(object: &Path) {
    let Some(compiler) = compiler() else {
        fail(
            "the eBPF programs need clang: install it (apt install clang), or the Python package ziglang \
             (pip install ziglang); `make build BPF=no` builds spillcast without them",
        );
    };
    let processor = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        _ => "x86",
    };
    let compiled = Command::new(&compiler[0])
        .args(&compiler[1..])
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-c"])
        .arg(format!("-D__TARGET_ARCH_{processor}"))
        .arg(format!("{PROGRAMS}/capture.bpf.c"))
        .arg("-o")
        .arg(object)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        fail(&format!("{} cannot compile {PROGRAMS}", compiler.join(" ")));
    }
}

/// The command line of the first clang that runs; if `CLANG` is set, it is the only candidate.
fn compiler() -> Option<Vec<String>> {
    let candidates = match env::var("CLANG") {
        Ok(clang) => vec![vec![clang]],
        Err(_) => vec![vec!["clang".into()], zig_clang(VENV_PYTHON), zig_clang("python3")],
    };
    candidates.into_iter().find(|command| runs(command))
}

fn zig_clang(python: &str) -> Vec<String> {
    [python, "-m", "ziglang", "clang"].map(String::from).to_vec()
}

fn runs(command: &[String]) -> bool {
    Command::new(&command[0])
        .args(&command[1..])
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn fail(reason: &str) -> ! {
    println!("cargo::error={reason}");
    std::process::exit(1);
}
