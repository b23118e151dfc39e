//! Simulated applications of Spark, compared with manual sums and a simulation in small time steps.

use proptest::prelude::*;
use spillcast_core::spark::{
    self, Application, Executor, Job, Metrics, NodeStorage, Outcome, Stage, Task, least_work_s,
    read_event_logs,
};
use spillcast_core::unpack::unpacked;

const MB: f64 = 1e6;

fn metrics(cpu_s: f64, read_mb: i64, spill_mb: i64, write_mb: i64) -> Metrics {
    Metrics {
        cpu_ns: (cpu_s * 1e9) as i64,
        shuffle_read_local_bytes: read_mb * 1_000_000,
        spill_bytes: spill_mb * 1_000_000,
        shuffle_write_bytes: write_mb * 1_000_000,
        ..Metrics::default()
    }
}

/// Sequential stages on one node; the duration of each task is its CPU time.
fn application(cores: u32, stages: &[Vec<Metrics>]) -> Application {
    let mut application = Application {
        started_ms: Some(0),
        executors: vec![Executor { cores, host: "a".to_owned(), ..Executor::default() }],
        jobs: vec![Job { stage_ids: (0..stages.len() as i64).collect(), ..Job::default() }],
        ..Application::default()
    };
    // With a file for each partition, data would be written twice.
    let threshold = "spark.shuffle.sort.bypassMergeThreshold".to_owned();
    application.properties.insert(threshold, "0".to_owned());
    for (at, tasks) in stages.iter().enumerate() {
        let mut stage = Stage {
            id: at as i64,
            parents: if at == 0 { vec![] } else { vec![at as i64 - 1] },
            job: Some(0),
            submitted_ms: Some(0),
            completed_ms: Some(0),
            task_count: tasks.len() as u64,
            ..Stage::default()
        };
        for metrics in tasks {
            stage.sums.add(metrics);
            application.tasks.push(Task {
                stage: at as u32,
                finished_ms: metrics.cpu_ns / 1_000_000,
                metrics: *metrics,
                ..Task::default()
            });
        }
        application.stages.push(stage);
    }
    application.jobs[0].completed_ms = Some(0);
    application.ended_ms = Some(0);
    application
}

fn device(mb_per_s: f64, cache_mb: f64, dirty_mb: f64) -> NodeStorage {
    NodeStorage {
        reader_bytes_per_s: mb_per_s * MB,
        read_bytes_per_s: mb_per_s * MB,
        write_bytes_per_s: mb_per_s * MB,
        cache_bytes: cache_mb * MB,
        dirty_bytes: dirty_mb * MB,
        shared: true,
    }
}

fn simulate(application: &Application, storage: &NodeStorage, work_s: &[f64]) -> Outcome {
    spark::simulate(application, storage, work_s, &mut || true).unwrap()
}

fn work_s(application: &Application, storage: &NodeStorage) -> Vec<f64> {
    spark::work_s(application, storage, &mut || true).unwrap()
}

fn elapsed_s(application: &Application, storage: &NodeStorage) -> f64 {
    let work = work_s(application, &NodeStorage::unlimited());
    simulate(application, storage, &work).elapsed_s
}

#[track_caller]
fn assert_close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-3 * expected.max(1e-3), "{actual} s, not {expected} s");
}

#[test]
fn tasks_fill_slots_in_order() {
    let tasks = [3.0, 1.0, 1.0, 2.0].map(|s| metrics(s, 0, 0, 0));
    let application = application(2, &[tasks.to_vec(), vec![metrics(1.0, 0, 0, 0)]]);
    // One slot runs 3 and 2, the other 1 and 1. Then the second stage runs.
    assert_close(elapsed_s(&application, &NodeStorage::unlimited()), 4.0 + 1.0);
}

#[test]
fn executors_are_added_and_removed_at_the_same_progress_as_in_the_log() {
    // Stages of 4 tasks of 1 s. An executor is added 0.5 s into the first one, which ends after 2.5
    // s, and removed as the second one starts.
    let stages = [vec![metrics(1.0, 0, 0, 0); 4], vec![metrics(1.0, 0, 0, 0); 4]];
    let mut application = application(1, &stages);
    let mut second = application.executors[0].clone();
    (second.host, second.added_ms, second.removed_ms) = ("b".to_owned(), 500, Some(2501));
    application.executors.push(second);
    application.stages[0].completed_ms = Some(2500);
    for stage in &mut application.stages[1..] {
        (stage.submitted_ms, stage.completed_ms) = (Some(2500), Some(6500));
    }
    application.jobs[0].completed_ms = Some(6500);
    application.ended_ms = Some(6500);
    let memory = NodeStorage::unlimited();
    assert_close(elapsed_s(&application, &memory), 2.5 + 1.0 + 2.0);
    // With tasks of half the time it is removed equally early in the second stage.
    for task in &mut application.tasks {
        (task.finished_ms, task.metrics.cpu_ns) = (500, 500_000_000);
    }
    assert_close(elapsed_s(&application, &memory), 1.5 + 0.5 + 1.0);
    // If no executor is left, the last ones stay.
    application.executors.truncate(1);
    application.executors[0].removed_ms = Some(2400);
    assert_close(elapsed_s(&application, &memory), 2.0 + 2.0);
}

#[test]
fn a_job_waits_for_those_before_an_empty_job() {
    let mut application =
        application(2, &[vec![metrics(3.0, 0, 0, 0)], vec![metrics(1.0, 0, 0, 0)]]);
    let spans = [(0, 1000), (1000, 1000), (1000, 1000), (1000, 2000)];
    let jobs = (0..).zip(spans).map(|(id, (submitted_ms, completed_ms))| Job {
        id,
        submitted_ms,
        completed_ms: Some(completed_ms),
        ..Job::default()
    });
    application.jobs = jobs.collect();
    let last = &mut application.stages[1];
    (last.job, last.parents, last.submitted_ms) = (Some(3), vec![], Some(1000));
    for (stage, end_ms) in application.stages.iter_mut().zip([1000, 2000]) {
        stage.completed_ms = Some(end_ms);
    }
    application.ended_ms = Some(2000);
    // The first job takes 3 s instead of 1 s, which delays the last one equally.
    assert_close(elapsed_s(&application, &NodeStorage::unlimited()), 3.0 + 1.0);
}

#[test]
fn a_simulation_can_be_cancelled() {
    let application = application(1, &[vec![metrics(0.1, 0, 0, 0); 5000]]);
    let (memory, work) = (NodeStorage::unlimited(), vec![0.1; 5000]);
    let mut questions = 0;
    let mut once = || {
        questions += 1;
        questions < 2
    };
    assert!(spark::simulate(&application, &memory, &work, &mut once).is_none());
    assert_eq!(questions, 2);
}

#[test]
fn a_writer_waits_only_at_the_dirty_limit() {
    // 1,000 MB in 10 s of work, on a device of 20 MB/s.
    let writer = application(1, &[vec![metrics(10.0, 0, 0, 1000)]]);
    assert_close(elapsed_s(&writer, &device(20.0, 1e6, 1e5)), 10.0);
    // 2 s to the background limit of 200 MB, then 150 MB at 80 MB/s to the point where Linux
    // throttles writers, then the rest at the speed of the device.
    let rest_mb = 1000.0 - 200.0 - 150.0 / 80.0 * 100.0;
    let expected_s = 2.0 + 150.0 / 80.0 + rest_mb / 20.0;
    assert_close(elapsed_s(&writer, &device(20.0, 1e6, 400.0)), expected_s);
}

#[test]
fn data_removed_soon_after_was_written_back_first() {
    // Measured on Linux 6.18 with a dirty limit of 214 MB, 58 MB/s: pairs of processes wrote 304 MB
    // to 16 files and joined them. 21.0 s and 21.7 s; 1,154 and 1,176 MB reached the device.
    let stages = [vec![metrics(0.5, 0, 0, 304); 4], vec![metrics(0.0, 0, 0, 0)]];
    let mut application = application(2, &stages);
    application.properties.clear();
    let took_s = elapsed_s(&application, &device(58.0, 1100.0, 214.0));
    assert!((took_s / 42.7 - 1.0).abs() < 0.1, "{took_s} s");
}

#[test]
fn a_removal_waits_for_writeback_in_progress() {
    // Measured on Linux 6.18 with a background limit of 107 MB: of 150 MB that were dirty when
    // their file was removed, 46 MB were written while the removal waited, and the rest never.
    //
    // 300 MB in 1.5 s of work on 20 MB/s: at 1.0 s the background limit of 200 MB is reached; 290
    // MB are dirty at 1.5 s, and 260 MB after 1.5 s more.
    let spiller = application(1, &[vec![metrics(3.0, 0, 300, 0)]]);
    assert_close(elapsed_s(&spiller, &device(20.0, 1e6, 400.0)), 3.0 + 60.0 / 20.0);
}

#[test]
fn readers_share_the_device_unless_the_data_is_cached() {
    let write = vec![metrics(1.0, 0, 0, 400)];
    let read = vec![metrics(1.0, 100, 0, 0); 4];
    let readers = application(4, &[write, read]);
    assert_close(elapsed_s(&readers, &device(50.0, 1e6, 1e6)), 2.0);
    // Nothing is cached, and no writer waits: 400 MB through 50 MB/s beside 1 s of work.
    let took_s = elapsed_s(&readers, &device(50.0, 0.0, 1e6));
    assert!((9.0..=10.0).contains(&took_s), "{took_s}");
}

#[test]
fn evicted_parts_of_a_spill_are_read_from_the_device() {
    let spiller = application(1, &[vec![metrics(2.0, 0, 300, 0)]]);
    assert_close(elapsed_s(&spiller, &device(100.0, 1e6, 1e6)), 2.0);
    // Bytes from the device evict bytes that are still to be read: of 300 MB, the 100 MB in the
    // cache are gone or used after 100 MB, with a share of misses that rises from 2/3 to 1.
    let missed_mb = 200.0 * f64::ln(300.0 / 200.0) + 200.0;
    assert_close(elapsed_s(&spiller, &device(100.0, 100.0, 1e6)), 2.0 + missed_mb / 100.0);
}

#[test]
fn a_full_cache_keeps_as_much_of_a_shuffle_as_linux() {
    // Measured on Linux 6.18: 16 files, read by 8 sequential readers, 1,020 MB of cache.
    for (shuffle_mb, measured_mb) in [(1504.0, 1010.0), (2000.0, 1750.0)] {
        let write = vec![metrics(1.0, 0, 0, (shuffle_mb / 16.0) as i64); 16];
        let read = vec![metrics(1.0, (shuffle_mb / 8.0) as i64, 0, 0); 8];
        let application = application(1, &[write, read]);
        let waited_s = elapsed_s(&application, &device(100.0, 1020.0, 1e6)) - 24.0;
        let missed_mb = 100.0 * waited_s;
        assert!((missed_mb / measured_mb - 1.0).abs() < 0.1, "{missed_mb} MB of {measured_mb} MB");
    }
}

#[test]
fn files_of_partitions_are_joined_and_removed() {
    let writers = vec![metrics(1.0, 0, 0, 100); 4];
    let readers = vec![metrics(1.0, 100, 0, 0); 4];
    let mut application = application(1, &[writers, readers]);
    application.properties.clear();
    // The cache holds the shuffle and a second copy of one task's part of it.
    assert_close(elapsed_s(&application, &device(100.0, 510.0, 1e6)), 8.0);
    // Without a cache, the files are read back once, and then the shuffle is read.
    assert_close(elapsed_s(&application, &device(100.0, 0.0, 1e6)), 8.0 + 4.0 + 4.0);
}

#[test]
fn work_is_the_time_that_the_storage_of_the_run_does_not_explain() {
    // 300 MB of spill are read back at 100 MB/s: 3 of 5 s were waits.
    let mut spiller = application(1, &[vec![metrics(0.5, 0, 300, 0)]]);
    spiller.tasks[0].finished_ms = 5000;
    let storage = device(100.0, 0.0, 1e6);
    let work = work_s(&spiller, &storage);
    assert_close(work[0], 2.0);
    assert_close(simulate(&spiller, &storage, &work).elapsed_s, 5.0);
    assert_close(simulate(&spiller, &device(300.0, 0.0, 1e6), &work).elapsed_s, 3.0);
    // It waited at most for all that it wrote and read, with all slots of its node equally busy.
    assert_close(least_work_s(&spiller, Some(&device(200.0, 0.0, 1e6)))[0], 2.0);
    spiller.executors[0].cores = 2;
    assert_close(least_work_s(&spiller, Some(&device(200.0, 0.0, 1e6)))[0], 0.5);
}

#[test]
fn for_an_always_busy_device_the_error_of_rates_counts_once_as_work() {
    // 1,000 MB at 100 MB/s beside 1 s of CPU; the log lacks the time of spills.
    let mut writer = application(1, &[vec![metrics(1.0, 0, 1, 1000)]]);
    let storage = device(100.0, 1e6, 100.0);
    let simulated_s = simulate(&writer, &storage, &[1.0]).elapsed_s;
    writer.tasks[0].finished_ms = (1e3 * simulated_s) as i64 + 500;
    let work_s = work_s(&writer, &storage)[0];
    assert!((1.0..=1.6).contains(&work_s), "{work_s} s");
}

#[test]
fn a_shuffle_write_longer_than_its_cpu_time_waited() {
    // A device of 100 MB/s would keep up with 300 MB in 5 s of work; the log has 4 s of writes
    // beside 1 s of CPU.
    let mut task = metrics(1.0, 0, 0, 300);
    task.shuffle_write_ns = 4_000_000_000;
    let mut writer = application(1, &[vec![task]]);
    writer.tasks[0].finished_ms = 5000;
    assert_close(work_s(&writer, &device(100.0, 1e6, 100.0))[0], 2.0);
    assert_close(work_s(&writer, &NodeStorage::unlimited())[0], 5.0);
}

#[test]
fn a_task_waits_at_most_as_long_as_the_log_says() {
    // 5 s with 0.5 s of CPU: no wait without local I/O, 2 s with a shuffle write of 2 s, and all
    // the rest with a spill, whose time no log has.
    let untimed = [(0, 0, 5.0), (2, 0, 3.0), (2, 300, 0.5)];
    for (write_s, spill_mb, expected_s) in untimed {
        let mut task = metrics(0.5, 0, spill_mb, 0);
        task.shuffle_write_ns = write_s * 1_000_000_000;
        let mut application = application(1, &[vec![task]]);
        application.tasks[0].finished_ms = 5000;
        assert_close(least_work_s(&application, None)[0], expected_s);
    }
}

/// A node in steps of a millisecond, with one stage whose tasks neither read nor spill.
fn stepped_s(tasks: &[Metrics], cores: usize, storage: &NodeStorage) -> f64 {
    const STEP_S: f64 = 1e-3;
    let mut waiting: Vec<&Metrics> = tasks.iter().rev().collect();
    let mut running: Vec<(f64, f64, f64)> = Vec::new();
    let (mut now_s, mut dirty) = (0.0, 0.0f64);
    loop {
        while running.len() < cores {
            let Some(task) = waiting.pop() else { break };
            let work_s = task.cpu_ns as f64 / 1e9;
            running.push((work_s, task.shuffle_write_bytes as f64, 1.0));
        }
        if running.is_empty() {
            return now_s;
        }
        let wanted: f64 = running.iter().map(|(work_s, bytes, _)| bytes / work_s * STEP_S).sum();
        let back = storage.write_bytes_per_s * STEP_S;
        let room = 0.875 * storage.dirty_bytes - dirty + back;
        // Throttled writers all have the same speed while they write.
        let inflow = |writer: f64| -> f64 {
            running
                .iter()
                .map(|(work_s, bytes, _)| bytes / (work_s + bytes / writer) * STEP_S)
                .sum()
        };
        let mut writer = f64::INFINITY;
        if wanted > room {
            let (mut slow, mut fast) = (1.0, 1e15);
            for _ in 0..60 {
                writer = f64::sqrt(slow * fast);
                if inflow(writer) > room { fast = writer } else { slow = writer }
            }
        }
        dirty += inflow(writer);
        let excess = dirty - storage.dirty_bytes / 2.0;
        dirty -= back.min(excess.max(0.0));
        for (work_s, bytes, left) in &mut running {
            *left -= STEP_S / (*work_s + *bytes / writer);
        }
        running.retain(|(.., left)| *left > 0.0);
        now_s += STEP_S;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn elapsed_time_equals_a_simulation_in_small_steps(
        tasks in prop::collection::vec((1u32..30, 0i64..400), 1..12),
        cores in 1u32..4,
        mb_per_s in 20.0..400.0,
        dirty_mb in 20.0..2000.0,
    ) {
        let tasks: Vec<Metrics> =
            tasks.iter().map(|(cpu, write)| metrics(f64::from(*cpu) / 10.0, 0, 0, *write)).collect();
        let storage = device(mb_per_s, 1e9, dirty_mb);
        let application = application(cores, std::slice::from_ref(&tasks));
        let (took_s, stepped) = (elapsed_s(&application, &storage), stepped_s(&tasks, cores as usize, &storage));
        prop_assert!((took_s / stepped - 1.0).abs() < 0.02 , "{took_s} s, in steps {stepped} s");
    }
}

fn log_line(event: &str, rest: &str) -> String {
    format!("{{\"Event\":\"SparkListener{event}\",{rest}}}\n")
}

/// The end of a task that ran for 2 + 15 + 3 ms on its executor.
fn task_line(id: i64, launched_ms: i64, finished_ms: i64) -> String {
    let info = format!(
        r#""Task Info":{{"Task ID":{id},"Launch Time":{launched_ms},"Finish Time":{finished_ms},"#
    );
    let stage = r#""Stage ID":0,"Stage Attempt ID":0,"Task End Reason":{"Reason":"Success"},"#;
    let metrics = r#""Executor ID":"1","Host":"h"},"Task Metrics":{"Executor Run Time":15,
        "Executor Deserialize Time":2,"Result Serialization Time":3,"Executor CPU Time":9000000,
        "Disk Bytes Spilled":7}"#;
    log_line("TaskEnd", &(stage.to_owned() + &info + &metrics.replace('\n', " ")))
}

fn read(text: &str) -> Application {
    read_event_logs([unpacked(text.as_bytes())], |_| true).unwrap()
}

#[test]
fn a_truncated_line_is_counted_and_the_rest_is_read() {
    let stage = r#""Stage Info":{"Stage ID":0,"Stage Name":"count","Submission Time":5}"#;
    let text = log_line("StageSubmitted", stage)
        + &task_line(1, 10, 30)
        + "{\"Event\":\"SparkListenerTaskEnd\",\"Stage ID\":0,\"Task In";
    let application = read(&text);
    assert_eq!((application.tasks.len(), application.damaged_lines), (1, 1));
    let [stage] = &application.stages[..] else { panic!() };
    assert_eq!((stage.task_ms, stage.sums.cpu_ns, stage.sums.spill_bytes), (20, 9_000_000, 7));
}

#[test]
fn a_task_that_ends_before_its_launch_lasts_as_long_as_on_its_executor() {
    let application = read(&(task_line(1, 5_000, 10) + &task_line(2, 10, 40)));
    let times: Vec<_> = application.tasks.iter().map(|t| (t.launched_ms, t.finished_ms)).collect();
    assert_eq!(times, [(10, 40), (5_000, 5_020)]);
    assert_eq!((application.stages[0].task_ms, application.last_ms), (30 + 20, 5_020));
}

#[test]
fn memory_that_grew_during_a_spill_counts_as_none() {
    let line = task_line(1, 10, 40);
    let grew = line.replace("\"Disk Bytes", "\"Memory Bytes Spilled\":-1048576,\"Disk Bytes");
    let tasks = read(&grew).tasks;
    assert_eq!((tasks[0].spilled_memory_bytes, tasks[0].metrics.spill_bytes), (0, 7));
}

fn job_end(time_ms: i64) -> String {
    format!(r#"{{"Event":"SparkListenerJobEnd","Job ID":0,"Completion Time":{time_ms}}}"#)
}

#[test]
fn an_impossible_figure_is_refused_with_its_line() {
    let right = task_line(1, 10, 40);
    for absurd in [
        task_line(2, 5_000, 10).replace("Time\":15,", "Time\":1000000000000000,"),
        task_line(2, 5_000, i64::MAX),
        task_line(2, i64::MIN, 10),
        task_line(2, 5_000, 10).replace("Spilled\":7", &format!("Spilled\":{}", i64::MAX)),
        task_line(2, 5_000, 10).replace("Spilled\":7", &format!("Spilled\":{}", i64::MIN)),
        task_line(2, 5_000, 10).replace("Spilled\":7", "Spilled\":-1"),
        task_line(2, 5_000, 10).replace(
            "Spilled\":7",
            "Spilled\":7,\"Shuffle Read Metrics\":{\"Remote Bytes Read\":-1}",
        ),
        job_end(i64::MAX),
        job_end(i64::MIN),
    ] {
        let parts = [right.clone(), format!("{right}{absurd}")];
        let opened = parts.iter().map(|part| unpacked(part.as_bytes()));
        let error = read_event_logs(opened, |_| true).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        assert!(error.to_string().starts_with("line 2 of part 2: "), "{error}");
    }
}
