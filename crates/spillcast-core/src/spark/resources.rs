//! The same application with other executors, or with other memory for its tasks.

use super::application::{Application, Executor, Task};

/// Resources of the executors; None as in the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resources {
    pub executors: Option<u32>,
    /// Cores of each executor.
    pub cores: Option<u32>,
    /// Memory of a task for sorts, joins and aggregates: bytes in the log, and the factor on it.
    pub task_memory: Option<(f64, f64)>,
}

impl Application {
    /// The same stages and tasks with these resources. Executors share hosts as they do in the log.
    pub fn with_resources(&self, resources: &Resources) -> Application {
        let mut altered = self.clone();
        if let Some(executors) = resources.executors {
            let mut hosts: Vec<&str> = self.executors.iter().map(|e| e.host.as_str()).collect();
            hosts.sort_unstable();
            hosts.dedup();
            let by_host = self.executors.len().div_ceil(hosts.len().max(1)).max(1);
            let cores = self.executors.iter().map(|executor| executor.cores).max().unwrap_or(1);
            let added_ms = self.executors.iter().map(|executor| executor.added_ms).min();
            altered.executors = (0..executors as usize)
                .map(|at| Executor {
                    id: at.to_string(),
                    host: (at / by_host).to_string(),
                    cores,
                    added_ms: added_ms.unwrap_or_default(),
                    ..Executor::default()
                })
                .collect();
        }
        for executor in &mut altered.executors {
            executor.cores = resources.cores.unwrap_or(executor.cores);
        }
        if let Some((memory_bytes, factor)) = resources.task_memory {
            let packed = self.packed_share();
            for task in &mut altered.tasks {
                task.metrics.spill_bytes = spill_bytes(task, memory_bytes, factor, packed);
            }
            for stage in &mut altered.stages {
                stage.sums.spill_bytes = 0;
            }
            for task in &altered.tasks {
                altered.stages[task.stage as usize].sums.spill_bytes += task.metrics.spill_bytes;
            }
        }
        altered
    }

    /// The factor on task memory at which no task spills; None if no task spills now.
    pub fn memory_factor_without_spills(&self, memory_bytes: f64) -> Option<f64> {
        let spilling = self.tasks.iter().filter(|task| task.metrics.spill_bytes > 0);
        let factors = spilling.map(|task| {
            let had_bytes = had_bytes(task, memory_bytes);
            (had_bytes + task.spilled_memory_bytes as f64) / had_bytes
        });
        factors.reduce(f64::max)
    }

    /// Bytes on disk per byte of spilled memory.
    fn packed_share(&self) -> Option<f64> {
        let (disk, memory) = self.tasks.iter().fold((0, 0), |(disk, memory), task| {
            (disk + task.metrics.spill_bytes, memory + task.spilled_memory_bytes)
        });
        (disk > 0 && memory > 0).then(|| disk as f64 / memory as f64)
    }
}

/// Memory that a task had: its peak if it spilled, otherwise the larger of its peak and its share.
fn had_bytes(task: &Task, memory_bytes: f64) -> f64 {
    let peak_bytes = task.peak_memory_bytes as f64;
    let spilled = task.metrics.spill_bytes > 0;
    if spilled && peak_bytes > 0.0 { peak_bytes } else { memory_bytes.max(peak_bytes) }.max(1.0)
}

/// Bytes that a task spills with `factor` times its memory: all that does not fit.
fn spill_bytes(task: &Task, memory_bytes: f64, factor: f64, packed: Option<f64>) -> i64 {
    let had_bytes = had_bytes(task, memory_bytes);
    let spilled = task.spilled_memory_bytes as f64;
    let needed_bytes =
        if spilled > 0.0 { had_bytes + spilled } else { task.peak_memory_bytes as f64 };
    let over_bytes = (needed_bytes - factor * had_bytes).max(0.0);
    let packed = if spilled > 0.0 && task.metrics.spill_bytes > 0 {
        task.metrics.spill_bytes as f64 / spilled
    } else {
        packed.unwrap_or(1.0)
    };
    if task.metrics.spill_bytes > 0 && spilled == 0.0 {
        // The memory that it lacked is unknown.
        return if factor > 1.0 { 0 } else { task.metrics.spill_bytes };
    }
    (packed * over_bytes).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(peak: i64, spilled_memory: i64, spill: i64) -> Task {
        let mut task = Task {
            peak_memory_bytes: peak,
            spilled_memory_bytes: spilled_memory,
            ..Task::default()
        };
        task.metrics.spill_bytes = spill;
        task
    }

    #[test]
    fn memory_beyond_the_limit_is_spilled() {
        let spilling = task(100, 300, 150);
        assert_eq!(spill_bytes(&spilling, 100.0, 1.0, None), 150);
        assert_eq!(spill_bytes(&spilling, 100.0, 2.0, None), 100);
        assert_eq!(spill_bytes(&spilling, 100.0, 4.0, None), 0);
        let fitting = task(80, 0, 0);
        assert_eq!(spill_bytes(&fitting, 100.0, 1.0, Some(0.5)), 0);
        assert_eq!(spill_bytes(&fitting, 100.0, 0.5, Some(0.5)), 15);
        let tasks = vec![spilling, fitting];
        let application = Application { tasks, ..Application::default() };
        assert_eq!(application.memory_factor_without_spills(100.0), Some(4.0));
    }
}
