//! The memory that a measurement and its children share: which child has which task.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex::{self, Flags, Timespec};
use spillcast_calls::Mapping;

/// Children of a measurement: an observed one, an unobserved one, and the partner of either.
pub(crate) const CHILDREN: usize = 3;
pub const OBSERVED: usize = 0;
pub(crate) const BARE: usize = 1;
pub(crate) const PARTNER: usize = 2;

/// The next task of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Task {
    /// No task: the child sleeps until it is given one.
    None,
    /// The child is starting and has no task yet.
    Start,
    /// A burst of calls.
    Calls,
    /// A burst of context switches, with the child that has `Follow`.
    Lead,
    Follow,
}

#[repr(C)]
struct Words {
    tasks: [AtomicU32; CHILDREN],
    /// 1 while it is the turn of the child that has `Follow`.
    turn: AtomicU32,
    /// The CPU that all children run on.
    cpu: AtomicU32,
}

pub(crate) struct TaskTable(Mapping);

impl TaskTable {
    /// Lays out a table in an empty memory file; children map it with [`TaskTable::map`].
    pub fn create(memory: &File, cpu: u32) -> io::Result<TaskTable> {
        memory.set_len(size_of::<Words>() as u64)?;
        let table = TaskTable::map(memory)?;
        table.words().cpu.store(cpu, Ordering::Relaxed);
        for task in &table.words().tasks {
            task.store(Task::Start as u32, Ordering::Release);
        }
        Ok(table)
    }

    pub fn map(memory: &File) -> io::Result<TaskTable> {
        Ok(TaskTable(Mapping::new(Some(memory.as_fd()), size_of::<Words>())?))
    }

    pub fn cpu(&self) -> u32 {
        self.words().cpu.load(Ordering::Relaxed)
    }

    /// Gives a child its task; `Task::None` marks the last task as done.
    pub(crate) fn give(&self, index: usize, task: Task) {
        self.words().tasks[index].store(task as u32, Ordering::Release);
        wake(&self.words().tasks[index]);
    }

    /// Sleeps until a child has done its task. Errors: TimedOut if that takes longer than `limit`.
    pub(crate) fn wait_done(&self, index: usize, limit: Duration) -> io::Result<()> {
        let (word, end) = (&self.words().tasks[index], Instant::now() + limit);
        loop {
            let task = word.load(Ordering::Acquire);
            let left = end.saturating_duration_since(Instant::now());
            if task == Task::None as u32 {
                return Ok(());
            }
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sleep_while(word, task, Some(left));
        }
    }

    /// For a child: sleeps until it has a task, and returns it.
    pub fn next(&self, index: usize) -> Task {
        let word = &self.words().tasks[index];
        loop {
            match word.load(Ordering::Acquire) {
                0 => sleep_while(word, 0, None),
                task if task == Task::Calls as u32 => return Task::Calls,
                task if task == Task::Lead as u32 => return Task::Lead,
                _ => return Task::Follow,
            }
        }
    }

    /// Hands the CPU to the partner and sleeps until it is handed back.
    pub fn hand_over(&self) {
        self.pass(1);
        self.await_turn(0);
    }

    /// For the partner: sleeps until the CPU is handed over, and hands it back.
    pub(crate) fn hand_back(&self) {
        self.await_turn(1);
        self.pass(0);
    }

    fn pass(&self, turn: u32) {
        self.words().turn.store(turn, Ordering::Release);
        wake(&self.words().turn);
    }

    fn await_turn(&self, turn: u32) {
        while self.words().turn.load(Ordering::Acquire) != turn {
            sleep_while(&self.words().turn, 1 - turn, None);
        }
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping has the size of the words and is aligned to a page; any bits are
        // valid.
        unsafe { self.0.start().cast().as_ref() }
    }
}

/// Sleeps while the word holds `value`, at most for `limit`; a signal ends the sleep early.
fn sleep_while(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let _ = futex::wait(word, Flags::empty(), value, limit.as_ref());
}

fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::empty(), 1);
}
