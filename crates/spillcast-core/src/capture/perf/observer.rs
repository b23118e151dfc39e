//! Perf events on processes: opened by any thread, while another reads the rings they write to.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use spillcast_calls::CallKind;

use super::super::proc::numbers_in;
use super::super::source::{self, Births};
use super::births::Watch;
use super::open::{self, Scope};
use super::tracepoints::Tracepoints;
use crate::system::raise_descriptor_limit;

/// Opens perf events on processes.
pub struct Observer {
    pub tracepoints: Tracepoints,
    /// Numbers of what is opened on each thread, and whether it wakes the reader.
    opened: Vec<(u16, bool)>,
    /// One a CPU: the events that carry the rings.
    pub holders: Vec<OwnedFd>,
    events: Mutex<Vec<OwnedFd>>,
}

impl Observer {
    pub fn new(calls: &[CallKind]) -> io::Result<Observer> {
        let tracepoints = Tracepoints::find()?;
        let opened = tracepoints.of_calls(calls);
        let holder = |cpu| open::dummy(0, cpu, Scope::ThisThread);
        let holders: io::Result<_> = online_cpus()?.into_iter().map(holder).collect();
        Ok(Observer { tracepoints, opened, holders: holders?, events: Mutex::default() })
    }

    fn attach_thread(&self, tid: i32) -> io::Result<()> {
        let mut opened = Vec::new();
        for (holder, cpu) in self.holders.iter().zip(online_cpus()?) {
            let switches = open::switches(tid, cpu)?;
            open::redirect(&switches, holder)?;
            opened.push(switches);
            // Where they are refused, switches alone tell how long a thread waited.
            if let Some(waking) = self.tracepoints.waking
                && let Ok(wakings) = open::wakings(waking.id, tid, cpu)
            {
                open::redirect(&wakings, holder)?;
                opened.push(wakings);
            }
            for &(id, urgent) in &self.opened {
                let event = open::tracepoint(id, tid, cpu, Scope::Descendants, urgent)?;
                open::redirect(&event, holder)?;
                opened.push(event);
            }
        }
        self.events.lock().expect("no holder panics").append(&mut opened);
        Ok(())
    }
}

impl source::Observer for Observer {
    fn attach(&self, pid: i32) -> io::Result<()> {
        // Every thread takes an event per call and CPU; the usual soft limit would be too low.
        raise_descriptor_limit();
        let mut seen = HashSet::new();
        // Threads that start while the list is read are missed by one look, not by two in a row.
        loop {
            let new: Vec<i32> = numbers_in(&format!("/proc/{pid}/task"))?
                .into_iter()
                .filter(|tid| seen.insert(*tid))
                .collect();
            if new.is_empty() {
                return if seen.is_empty() {
                    Err(io::Error::from_raw_os_error(libc::ESRCH))
                } else {
                    Ok(())
                };
            }
            for tid in new {
                match self.attach_thread(tid) {
                    // The thread ended in between.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => (),
                    Err(error) => return Err(error),
                    Ok(()) => (),
                }
            }
        }
    }

    fn births(&self, parent: i32, title: &str) -> io::Result<Births> {
        let mut watch = Watch::new(parent, title)?;
        Ok(Box::new(move || watch.next()))
    }
}

/// CPU numbers from a list such as `0-3,8`.
fn online_cpus() -> io::Result<Vec<i32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    };
    Ok(text.trim().split(',').filter_map(range).flatten().collect())
}
