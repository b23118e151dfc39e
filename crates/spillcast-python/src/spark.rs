//! Event logs of Spark: an application, its JSON without individual tasks, and its simulation.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use spillcast_core::spark::{
    Application, NodeStorage, Outcome, Resources, Task, least_work_s, read_event_logs, simulate,
    work_beside_s, work_s,
};
use spillcast_core::unpack::unpacked;

use crate::error::read_error;

/// Read bandwidth of one reader and of all readers, bandwidth of writeback (bytes/s), page cache
/// and dirty limit (bytes), and whether reads and writes share the bandwidth.
type Figures = (f64, f64, f64, f64, f64, bool);
/// Start, end, and sums over tasks of work and of waits for reads and writes, in seconds.
type StageRow = (f64, f64, f64, f64, f64);
/// Elapsed time, stages, and start and end of SQL executions and of jobs, in seconds.
type Simulated = (f64, Vec<StageRow>, Vec<(f64, f64)>, Vec<(f64, f64)>);

/// Bytes read between two calls of `progress`.
const PROGRESS_BYTES: u64 = 8 << 20;

/// The content of the event log of one application.
#[pyclass(frozen, module = "spillcast._core")]
pub struct SparkApplication(Application);

/// By task, the time that does not depend on storage.
#[pyclass(frozen, module = "spillcast._core")]
pub struct SparkWork(Vec<f64>);

#[pymethods]
impl SparkApplication {
    /// Read the parts of one log, in order: paths, or objects with `read(n)`. `progress` gets the
    /// bytes of text so far. OSError if a part cannot be read, ValueError if it is damaged.
    #[staticmethod]
    fn read(py: Python<'_>, parts: Vec<Bound<'_, PyAny>>, progress: Py<PyAny>) -> PyResult<Self> {
        let parts: Vec<Source> = parts.iter().map(Source::of).collect();
        let (mut read, mut shown) = (0, 0);
        let mut raised = None;
        let application = py.detach(|| {
            let opened = parts.into_iter().map(Source::open);
            read_event_logs(opened, |bytes| {
                read += bytes;
                if read - shown < PROGRESS_BYTES {
                    return true;
                }
                shown = read;
                let seen = Python::attach(|py| {
                    py.check_signals().and_then(|()| progress.call1(py, (read,)).map(drop))
                });
                raised = seen.err();
                raised.is_none()
            })
        });
        match (application, raised) {
            (_, Some(error)) => Err(error),
            (Ok(application), None) => Ok(SparkApplication(application)),
            (Err(error), None) => Err(read_error(error)),
        }
    }

    /// The application without individual tasks; stages have sums of their tasks.
    fn to_json(&self) -> String {
        serde_json::to_string(&self.0).expect("numbers and texts")
    }

    /// The id of an executor that ran more concurrent tasks than it has cores, and their number, or
    /// None.
    fn overfull_executor(&self) -> Option<(String, u32)> {
        self.0.overfull_executor().map(|(executor, tasks)| (executor.id.clone(), tasks))
    }

    /// Number of tasks that started before their stage, or ended after it.
    fn tasks_outside_stages(&self) -> usize {
        self.0.tasks_outside_stages()
    }

    /// The same stages and tasks on `executors` executors of `cores` cores; `task_memory` is the
    /// memory of a task in the log (bytes) and the factor on it. None: as in the log.
    fn with_resources(
        &self,
        executors: Option<u32>,
        cores: Option<u32>,
        task_memory: Option<(f64, f64)>,
    ) -> Self {
        let resources = Resources { executors, cores, task_memory };
        SparkApplication(self.0.with_resources(&resources))
    }

    /// The factor on task memory (bytes) at which no task spills; None if no task spills now.
    fn memory_factor_without_spills(&self, memory_bytes: f64) -> Option<f64> {
        self.0.memory_factor_without_spills(memory_bytes)
    }

    /// The work of its tasks, if it ran with its temp files on this storage; None: on a storage
    /// without waits.
    fn work(&self, py: Python<'_>, figures: Option<Figures>) -> PyResult<SparkWork> {
        let storage = storage_of(figures);
        interruptibly(py, |go_on| work_s(&self.0, &storage, go_on)).map(SparkWork)
    }

    /// The least work of its tasks on a storage; None: on any storage.
    fn least_work(&self, figures: Option<Figures>) -> SparkWork {
        let storage = figures.map(|figures| storage_of(Some(figures)));
        SparkWork(least_work_s(&self.0, storage.as_ref()))
    }

    /// By task: launch and end in ms since 1970, and bytes of spills and shuffles transferred on
    /// local storage. Spills count twice, as they are written and read.
    fn local_io(&self) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
        let tasks = &self.0.tasks;
        let moved = |task: &Task| {
            let metrics = &task.metrics;
            let shuffled = metrics.shuffle_write_bytes + metrics.shuffle_read_local_bytes;
            shuffled + 2 * metrics.spill_bytes
        };
        (
            tasks.iter().map(|task| task.launched_ms).collect(),
            tasks.iter().map(|task| task.finished_ms).collect(),
            tasks.iter().map(moved).collect(),
        )
    }

    /// The work of its tasks, if their waits for storage were `waits_s`.
    fn work_beside(&self, waits_s: Vec<f64>) -> PyResult<SparkWork> {
        if waits_s.len() != self.0.tasks.len() {
            return Err(PyValueError::new_err("the waits are those of another application"));
        }
        Ok(SparkWork(work_beside_s(&self.0, &waits_s)))
    }

    /// Simulate the application with its temp files on a storage; None: on a storage without waits.
    fn simulate(
        &self,
        py: Python<'_>,
        figures: Option<Figures>,
        work: &SparkWork,
    ) -> PyResult<Simulated> {
        if work.0.len() != self.0.tasks.len() {
            return Err(PyValueError::new_err("the work is that of another application"));
        }
        let storage = storage_of(figures);
        let Outcome { elapsed_s, stages, executions, jobs, .. } =
            interruptibly(py, |go_on| simulate(&self.0, &storage, &work.0, go_on))?;
        let row = |stage: spillcast_core::spark::StageOutcome| {
            (stage.begin_s, stage.end_s, stage.work_s, stage.read_wait_s, stage.write_wait_s)
        };
        Ok((elapsed_s, stages.into_iter().map(row).collect(), executions, jobs))
    }
}

/// Simulates without the GIL; a signal ends it.
fn interruptibly<T: Send>(
    py: Python<'_>,
    simulate: impl FnOnce(&mut dyn FnMut() -> bool) -> Option<T> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let outcome = py.detach(|| {
        simulate(&mut || {
            raised = Python::attach(|py| py.check_signals()).err();
            raised.is_none()
        })
    });
    outcome.ok_or_else(|| raised.expect("only a signal ends a simulation"))
}

fn storage_of(figures: Option<Figures>) -> NodeStorage {
    let Some((reader, read, write, cache_bytes, dirty_bytes, shared)) = figures else {
        return NodeStorage::unlimited();
    };
    NodeStorage {
        reader_bytes_per_s: reader,
        read_bytes_per_s: read,
        write_bytes_per_s: write,
        cache_bytes,
        dirty_bytes,
        shared,
    }
}

/// A part of a log.
enum Source {
    Path(PathBuf),
    Object(Py<PyAny>),
}

impl Source {
    fn of(part: &Bound<'_, PyAny>) -> Source {
        match part.extract::<PathBuf>() {
            Ok(path) => Source::Path(path),
            Err(_) => Source::Object(part.clone().unbind()),
        }
    }

    fn open(self) -> io::Result<Box<dyn Read + Send>> {
        match self {
            Source::Path(path) => unpacked(File::open(path)?),
            Source::Object(object) => unpacked(Object(object)),
        }
    }
}

/// A file object of Python.
struct Object(Py<PyAny>);

impl Read for Object {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let content = self.0.call_method1(py, "read", (into.len(),))?;
            let content: Vec<u8> = content.extract(py)?;
            let length = content.len().min(into.len());
            into[..length].copy_from_slice(&content[..length]);
            Ok(length)
        })
        .map_err(|error: PyErr| io::Error::other(error.to_string()))
    }
}
