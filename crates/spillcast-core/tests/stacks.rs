//! Functions of a program without frame pointers, with the known CPU time of each.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use spillcast_core::capture::{CallKind, Capture, NamedStacks, SOURCES, Symbols, TempRules};

/// Two functions with a common caller, the second with a large frame, and a recursive function;
/// prints the CPU time of each. The callers of `deep` exceed the sampled part of a stack.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <time.h>
#define APART __attribute__((noinline, noclone))
static volatile unsigned long sink;
static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
APART static void alpha(long rounds) { for (long i = 0; i < rounds; i++) sink += i * sink; }
APART static void beta(long rounds) {
    volatile char large[6000];
    for (long i = 0; i < rounds; i++) { large[i % 6000] = (char)i; sink += large[0] + i; }
}
APART static void deep(long rounds, int depth) {
    volatile char frame[100000];
    frame[0] = (char)rounds;
    if (depth) deep(rounds, depth - 1);
    else for (long i = 0; i < rounds; i++) sink += i ^ frame[0];
    frame[1] = 0;
}
APART static void work(double *spent) {
    double begin = cpu_s(), now;
    alpha(3000000); now = cpu_s(); spent[0] += now - begin; begin = now;
    beta(1000000); now = cpu_s(); spent[1] += now - begin; begin = now;
    deep(1000000, 2); now = cpu_s(); spent[2] += now - begin;
    sink++;
}
int main(void) {
    double spent[3] = {0, 0, 0};
    getchar();
    while (spent[0] + spent[1] + spent[2] < 3) work(spent);
    printf("%f %f %f\n", spent[0], spent[1], spent[2]);
    return 0;
}
"#;

fn compiled(folder: &std::path::Path) -> Option<PathBuf> {
    let (source, program) = (folder.join("known.c"), folder.join("known"));
    std::fs::write(&source, PROGRAM).unwrap();
    let compiler = Command::new("cc")
        .args(["-O1", "-fomit-frame-pointer", "-o"])
        .args([&program, &source])
        .status();
    compiler.ok()?.success().then_some(program)
}

/// CPU time in `alpha`, `beta` and `deep` as measured by the program, and the samples.
fn observed(source: &str) -> Option<([f64; 3], NamedStacks)> {
    let open = SOURCES.iter().find(|(name, _)| *name == source).unwrap().1;
    let capture_source = open(CallKind::ALL).ok()?;
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path())?;
    let mut child = Command::new(program);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pids = [child.id() as i32];
    let mut capture = Capture::start(capture_source, &pids, TempRules::default()).unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    capture.stop();
    let text = String::from_utf8(output.stdout).unwrap();
    let spent: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    Some((spent.try_into().unwrap(), capture.stacks()?))
}

fn check(source: &str) {
    let Some((spent_s, named)) = observed(source) else {
        return eprintln!("SKIP: no compiler, or {source} samples no stacks here");
    };
    let name = |position: &usize| named.functions[*position].name.as_deref().unwrap_or("?");
    let (mut samples, mut complete) = (HashMap::<&str, u64>::new(), 0);
    for stack in &named.stacks {
        let names: Vec<&str> = stack.functions.iter().map(name).collect();
        *samples.entry(names[0]).or_default() += stack.samples;
        assert_eq!(stack.thread, "known");
        match names[0] {
            "alpha" | "beta" => {
                assert_eq!(names[1..3], ["work", "main"], "{names:?}");
                complete += stack.samples * u64::from(stack.complete);
            }
            "deep" => assert!(names == ["deep"] && !stack.complete, "{names:?}"),
            _ => (),
        }
    }
    // Pages at the upper end of a stack may not be in memory.
    assert!(complete * 10 > 8 * (samples["alpha"] + samples["beta"]), "{complete} {samples:?}");
    let total_s: f64 = spent_s.iter().sum();
    for (function, spent_s) in ["alpha", "beta", "deep"].into_iter().zip(spent_s) {
        let share = samples[function] as f64 / named.samples as f64;
        assert!((share - spent_s / total_s).abs() < 0.1, "{function}: {share}, {spent_s} s");
    }
    let alpha = named.functions.iter().find(|f| f.name.as_deref() == Some("alpha")).unwrap();
    let module = &named.modules[alpha.module];
    assert_eq!((module.name.as_str(), module.symbols), ("known", Symbols::All));
}

#[test]
fn functions_and_their_callers_are_sampled_under_ebpf() {
    check("bpf");
}

#[test]
fn functions_and_their_callers_are_sampled_under_perf_events() {
    check("perf");
}
