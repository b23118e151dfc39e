//! Cases whose elapsed time is obvious, and comparisons with slower simulations and with bounds.

use super::*;
use crate::storage::{Curve, Curves, Distribution, Latencies, Limit};
use crate::wait::Op;

/// Without a storage.
fn run(rows: &[Row], cores: usize) -> Outcome {
    super::run(rows, of(cores), Model::default(), Memory::default(), None)
}

fn of(cores: usize) -> Cpus {
    Cpus { cores, quota: None }
}

/// Runs `rows` with a quota of `quota_ns` in each 100 ns on `cores` cores.
fn limited(rows: &[Row], cores: usize, quota_ns: u64) -> Outcome {
    let quota = Some(Quota { quota_ns, period_ns: 100 });
    super::run(rows, Cpus { cores, quota }, Model::default(), Memory::default(), None)
}

fn row(thread: u32, cpu_ns: u64, wait: Wait) -> Row {
    Row { thread, cpu_ns, wait, call_ns: 0, temp: true }
}

#[test]
fn one_thread_takes_the_sum_of_its_rows() {
    let rows = [row(0, 10, Wait::For(100)), row(0, 5, Wait::OnCore(50)), row(0, 7, Wait::For(0))];
    let outcome = run(&rows, 1);
    assert_eq!(outcome.elapsed_ns, 10 + 100 + 5 + 50 + 7);
    assert_eq!((outcome.temp_ns, outcome.temp_busy_ns, outcome.forced), (150, 150, 0));
}

#[test]
fn waits_overlap_and_cores_are_shared() {
    let two = |cores| {
        let rows: Vec<Row> =
            (0..100).flat_map(|_| [0, 1].map(|t| row(t, 1_000, Wait::For(9_000)))).collect();
        run(&rows, cores).elapsed_ns
    };
    assert_eq!(two(2), 100 * 10_000);
    // They contend for the core once, and never again.
    assert_eq!(two(1), 100 * 10_000 + 1_000);
    let busy: Vec<Row> = (0..4).map(|t| row(t, 12_000_000, Wait::For(0))).collect();
    assert_eq!(run(&busy, 2).elapsed_ns, 24_000_000);
    assert_eq!(run(&busy, 4).elapsed_ns, 12_000_000);
}

#[test]
fn time_in_which_temp_operations_overlap_counts_once() {
    let rows = [row(0, 0, Wait::For(100)), row(1, 40, Wait::For(100)), row(0, 60, Wait::For(10))];
    let outcome = run(&rows, 2);
    assert_eq!((outcome.temp_ns, outcome.temp_busy_ns), (210, 150));
}

#[test]
fn a_thread_of_short_rows_keeps_its_core_for_a_quantum() {
    let ms = |n: u64| n * 1_000_000;
    let rows: Vec<Row> = (0..24)
        .map(|at| row(at % 2, ms(1), Wait::For(if at == 22 { ms(10) } else { 0 })))
        .collect();
    // Threads take turns of 3 ms: the first has done its 12 ms at 21 ms, and waits.
    assert_eq!(run(&rows, 1).elapsed_ns, ms(21 + 10));
}

#[test]
fn a_thread_waits_for_the_work_of_another() {
    // Thread 1 goes on once thread 0 has read and then worked for 30.
    let rows = |latency_ns| {
        [
            row(0, 10, Wait::For(latency_ns)),
            row(1, 5, Wait::Until { row: 0, cpu_ns: 30 }),
            row(0, 50, Wait::For(0)),
            row(1, 20, Wait::For(100)),
        ]
    };
    assert_eq!(run(&rows(100), 2).elapsed_ns, 10 + 100 + 30 + 20 + 100);
    // On one core thread 1 gets its turn when thread 0 has done its work.
    assert_eq!(run(&rows(100), 1).elapsed_ns, 10 + 100 + 50 + 20 + 100);
}

#[test]
fn an_event_in_the_past_is_not_waited_for() {
    let rows = [
        row(0, 10, Wait::For(0)),
        row(1, 500, Wait::Until { row: 0, cpu_ns: 5 }),
        row(0, 5, Wait::For(0)),
    ];
    assert_eq!(run(&rows, 2).elapsed_ns, 500);
}

#[test]
fn taking_turns_takes_the_sum_of_both() {
    // Each works only after the other has done its I/O.
    let mut rows = Vec::new();
    for turn in 0..50 {
        for thread in 0..2u32 {
            if turn + thread > 0 {
                rows.push(row(thread, 0, Wait::Until { row: rows.len() - 1, cpu_ns: 0 }));
            }
            rows.push(row(thread, 10, Wait::For(1_000)));
        }
    }
    let outcome = run(&rows, 2);
    assert_eq!(outcome.elapsed_ns, 100 * 1_010);
    assert_eq!(outcome.temp_busy_ns, outcome.temp_ns);
}

#[test]
fn contradicting_rows_do_not_hang() {
    let rows = [
        row(0, 1, Wait::Until { row: 3, cpu_ns: 0 }),
        row(1, 1, Wait::Until { row: 2, cpu_ns: 0 }),
        row(0, 1, Wait::For(7)),
        row(1, 1, Wait::For(7)),
    ];
    let outcome = run(&rows, 2);
    assert_eq!(outcome.forced, 1);
    assert!(outcome.elapsed_ns >= 9);
}

#[test]
fn no_rows_take_no_time() {
    assert_eq!(run(&[], 2), Outcome::default());
}

/// A finished simulation, event by event or with skips.
fn simulated(rows: &[Row], cpus: Cpus, each_event: bool) -> (Outcome, u64) {
    let target = Target::new(Model::default(), Memory::default(), None, rows);
    let mut simulation = Simulation::new(rows, cpus, target);
    if each_event {
        simulation.cycle.events_min = u64::MAX;
    }
    simulation.run();
    (simulation.outcome, simulation.last_event)
}

/// A quota that is never used up makes every stretch end after a quantum.
const NEVER_USED_UP: Quota = Quota { quota_ns: 1 << 60, period_ns: 1 << 60 };

#[test]
fn long_stretches_on_a_core_equal_a_simulation_by_quanta() {
    let mut state = 7;
    for case in 0..400 {
        let rows = drawn(&mut state, 40, 50_000_000);
        for cores in 1..4 {
            let slow = Cpus { cores, quota: Some(NEVER_USED_UP) };
            let slow = simulated(&rows, slow, true).0;
            assert_eq!(run(&rows, cores), slow, "case {case}, {cores} cores");
        }
    }
}

#[test]
fn skipped_cycles_equal_a_simulation_of_each_event() {
    let mut state = 11;
    let mut passed = 0;
    for case in 0..400u64 {
        let rows = drawn(&mut state, 12, 3_000_000_000);
        let ms = |least: u64, drawn: u64| 1_000_000 * least + 250_000 * (drawn % 900);
        let drawn = crate::random::next(&mut state);
        let quota = Quota { quota_ns: ms(1, drawn), period_ns: ms(20, drawn >> 20) };
        for quota in [None, Some(quota), Some(NEVER_USED_UP)] {
            let cpus = Cpus { cores: 1 + case as usize % 4, quota };
            let (slow, events) = simulated(&rows, cpus, true);
            let (fast, fewer) = simulated(&rows, cpus, false);
            assert_eq!(fast, slow, "case {case}, {cpus:?}");
            passed += u64::from(fewer < events / 2);
        }
    }
    assert!(passed > 400, "{passed}");
}

/// Rows of up to six threads, most of which compute for a while.
fn drawn(state: &mut u64, count: u64, most_cpu_ns: u64) -> Vec<Row> {
    let mut below = |most: u64| crate::random::next(state) % most;
    let threads = 1 + below(6);
    (0..count)
        .map(|at| {
            let ns = below(most_cpu_ns * 4 / 5) + 1;
            let wait = match below(4) {
                0 => Wait::OnCore(ns),
                1 if at > 0 => {
                    Wait::Until { row: below(at) as usize, cpu_ns: below(most_cpu_ns / 5) }
                }
                _ => Wait::For(ns),
            };
            let cpu_ns = below(most_cpu_ns);
            Row { call_ns: below(2) * ns, ..row(below(threads) as u32, cpu_ns, wait) }
        })
        .collect()
}

#[test]
fn simulated_events_depend_on_rows_and_not_on_cpu_time() {
    let half = Quota { quota_ns: 50_000_000, period_ns: 100_000_000 };
    for (cores, quota) in [(3, None), (2, None), (3, Some(half))] {
        let events = |cpu_ns| {
            let rows: Vec<Row> =
                (0..90).map(|at| row(at % 3, cpu_ns + u64::from(at), Wait::For(1_000))).collect();
            simulated(&rows, Cpus { cores, quota }, false).1
        };
        assert!(events(10_000_000_000_000) < 2 * events(10_000_000_000), "{cores} {quota:?}");
    }
}

#[test]
fn many_threads_stay_within_the_bounds_of_schedules() {
    let mut state = 1;
    let mut random = |below: u64| crate::random::next(&mut state) % below;
    for cores in 1..4 {
        let rows: Vec<Row> = (0..4_000)
            .map(|_| {
                let ns = random(300_000);
                let wait = if random(4) == 0 { Wait::OnCore(ns) } else { Wait::For(ns) };
                row(random(5) as u32, random(100_000), wait)
            })
            .collect();
        let on_core = |row: &Row| row.cpu_ns + if let Wait::OnCore(ns) = row.wait { ns } else { 0 };
        let whole = |row: &Row| match row.wait {
            Wait::For(ns) | Wait::OnCore(ns) => row.cpu_ns + ns,
            Wait::Until { .. } | Wait::Io(_) => row.cpu_ns,
        };
        let work_ns: u64 = rows.iter().map(on_core).sum();
        let longest_ns = (0..5)
            .map(|t| rows.iter().filter(|row| row.thread == t).map(whole).sum::<u64>())
            .max()
            .unwrap();
        let outcome = run(&rows, cores);
        assert!(outcome.elapsed_ns >= longest_ns.max(work_ns / cores as u64));
        // Graham's bound for greedy schedules.
        assert!(outcome.elapsed_ns <= longest_ns + work_ns / cores as u64);
        assert_eq!(outcome.forced, 0);
    }
}

/// An operation of 1,000 bytes after `cpu_ns` of CPU time.
fn io(thread: u32, op: Op, offset: u64, cpu_ns: u64) -> Row {
    let io = Io { op, offset: Some(offset), bytes: 1000, ..Io::default() };
    row(thread, cpu_ns, Wait::Io(io))
}

#[test]
fn a_write_cache_fills_up_and_drains_in_pauses() {
    // 4 writes fit; a write takes 100 ns, and 1,000 ns to leave the cache.
    let cache = Limit { write_ns_per_byte: 1.0, burst_ns: 4_000.0, ..Limit::default() };
    let model = Model { limits: vec![cache], ..Model::fixed(100, 100) };
    let writes: Vec<Row> =
        (0..8).map(|at| io(0, Op::Write, 1000 * at, if at == 7 { 50_000 } else { 0 })).collect();
    let outcome = super::run(&writes, of(1), model, Memory::default(), None);
    assert_eq!(outcome.io_ns[..4], [100.0; 4]);
    // Data worth 400 ns has left the cache. Then each write waits for the one before it.
    assert_eq!(outcome.io_ns[4..], [1_000.0 - 400.0 + 100.0, 1_000.0, 1_000.0, 100.0]);
    assert_eq!(outcome.waits.limited_ns, [600.0 + 900.0 + 900.0]);
}

#[test]
fn threads_share_a_server_and_consecutive_offsets_are_sequential() {
    let curves = |ns| Curves::new(vec![(1, Curve::new(vec![(0, Distribution::new(&[(ns, 1)]))]))]);
    let read = Latencies { sequential: curves(10.0), random: curves(1_000.0) };
    let model = Model { read, servers: Some(1), ..Model::default() };
    let rows = [
        io(0, Op::Read, 0, 0),
        io(1, Op::Read, 1000, 5),
        io(0, Op::Read, 5000, 0),
        row(0, 0, Wait::For(0)),
    ];
    // The server is free at 10, then at 20; the first thread returns at 10.
    let outcome = super::run(&rows, of(2), model, Memory::default(), None);
    assert_eq!(outcome.io_ns, [10.0, 5.0 + 10.0, 10.0 + 1_000.0, 0.0]);
    assert_eq!(outcome.elapsed_ns, 1_020);
}

#[test]
fn sequential_reads_and_writes_are_tracked_separately() {
    let curves = |ns| Curves::new(vec![(1, Curve::new(vec![(0, Distribution::new(&[(ns, 1)]))]))]);
    let either = || Latencies { sequential: curves(10.0), random: curves(1_000.0) };
    let model = Model { read: either(), write: either(), ..Model::default() };
    let rows: Vec<Row> = (0..8u64)
        .map(|at| {
            let op = if at % 2 == 0 { Op::Write } else { Op::Read };
            io(0, op, 1000 * (at / 2) + if op == Op::Read { 50_000 } else { 0 }, 0)
        })
        .collect();
    let outcome = super::run(&rows, of(1), model, Memory::default(), None);
    assert_eq!(outcome.io_ns, [10.0; 8]);
}

#[test]
fn a_page_cache_reports_the_time_of_the_storage() {
    let rows = [io(0, Op::Write, 0, 0), io(0, Op::Read, 0, 0)];
    let through =
        |limits| super::run(&rows, of(1), Model::fixed(100, 100), Memory::default(), limits);
    let limits = PageCacheLimits { bytes: 1 << 20, dirty_bytes: 1 << 20 };
    let (cached, direct) = (through(Some(limits)), through(None));
    assert_eq!((cached.io_ns, cached.storage_ns), (vec![0.0; 2], vec![0.0; 2]));
    assert_eq!((direct.io_ns, direct.storage_ns), (vec![100.0; 2], vec![]));
}

#[test]
fn an_operation_from_memory_keeps_its_core() {
    let rows: Vec<Row> = (0..20).map(|at| io(at % 2, Op::Read, 0, 0)).collect();
    let elapsed_ns = |memory_ns| {
        let memory = Memory { ns: memory_ns, ns_per_byte: 0.0 };
        super::run(&rows, of(1), Model::fixed(100, 100), memory, None).elapsed_ns
    };
    assert_eq!(elapsed_ns(99.0), 10 * 100);
    assert_eq!(elapsed_ns(100.0), 20 * 100);
}

#[test]
fn a_quota_is_refilled_once_a_period() {
    let busy = [row(0, 200, Wait::For(0))];
    // 40 of each 100: five periods, the last of them only in part.
    let outcome = limited(&busy, 1, 40);
    assert_eq!((outcome.elapsed_ns, outcome.throttled_ns), (4 * 100 + 40, 4 * 60));
    assert_eq!(limited(&busy, 1, 100).elapsed_ns, 200);
    // A quota of 0 would never end, so it counts as 1 ns.
    assert_eq!(limited(&busy, 1, 0).elapsed_ns, 199 * 100 + 1);
}

#[test]
fn threads_share_a_quota() {
    let ms = |n: u64| n * 1_000_000;
    let two = [row(0, ms(99), Wait::For(0)), row(1, ms(99), Wait::For(0))];
    let elapsed_ns = |quota_ms| {
        let quota = Some(Quota { quota_ns: ms(quota_ms), period_ns: ms(100) });
        let cpus = Cpus { cores: 2, quota };
        super::run(&two, cpus, Model::default(), Memory::default(), None).elapsed_ns
    };
    // Each thread gets half: 30 a period, and 9 in the last one.
    assert_eq!(elapsed_ns(60), ms(3 * 100 + 9));
    assert_eq!(elapsed_ns(150), ms(100 + 24));
    assert_eq!(elapsed_ns(200), ms(99));
}

#[test]
fn a_wait_continues_while_the_quota_is_used_up() {
    // It waits from 40 to 90, then has 30 left to burn, no quota left, and 10 to the next period.
    let rows = [row(0, 40, Wait::For(50)), row(0, 30, Wait::For(0))];
    let outcome = limited(&rows, 1, 40);
    assert_eq!((outcome.elapsed_ns, outcome.throttled_ns), (130, 10));
    // A thread that waits long enough never meets the limit.
    let slow: Vec<Row> = (0..50).map(|_| row(0, 10, Wait::For(40))).collect();
    let outcome = limited(&slow, 1, 20);
    assert_eq!((outcome.elapsed_ns, outcome.throttled_ns), (50 * 50, 0));
    let fast: Vec<Row> = (0..50).map(|_| row(0, 10, Wait::For(1))).collect();
    // 20 of each 100, the first 20 at once; the waits are hidden.
    assert_eq!(limited(&fast, 1, 20).elapsed_ns, 24 * 100 + 20 + 2);
}

#[test]
fn a_wait_on_its_core_uses_the_quota() {
    let rows: Vec<Row> = (0..10).map(|_| row(0, 10, Wait::OnCore(10))).collect();
    assert_eq!(limited(&rows, 1, 50).elapsed_ns, 3 * 100 + 50);
}

#[test]
fn cpu_time_within_waits_uses_the_quota() {
    // 10 and 30 of each 40; the wait lasts no longer because of it.
    let calls: Vec<Row> =
        (0..5).map(|_| Row { call_ns: 30, ..row(0, 10, Wait::For(50)) }).collect();
    let outcome = limited(&calls, 1, 40);
    assert_eq!((outcome.elapsed_ns, outcome.throttled_ns), (4 * 100 + 60, 4 * 40));
    // CPU time beyond the quota is a debt: 50 of each 40.
    let calls: Vec<Row> =
        (0..9).map(|_| Row { call_ns: 40, ..row(0, 10, Wait::For(50)) }).collect();
    assert_eq!(limited(&calls, 1, 40).elapsed_ns, 10 * 100 + 60);
    assert_eq!(run(&calls, 1).elapsed_ns, 9 * 60);
}
