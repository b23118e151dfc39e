//! Delaying the temp I/O of a program that was started for it, in short stretches of its run.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::delay_page::{DELAY_PAGE_VARIABLE, DELAYS, DelayPage, Delayed};
use crate::system::{now_ns, run_soon};

/// Blocks of so many groups are as good as no delay at all.
const BLOCK_GROUPS_MAX: f64 = 10_000.0;
const TICK: Duration = Duration::from_millis(50);
/// How long delays outlive the recorder.
const HOLD_NS: u64 = 250_000_000;

/// How a run is perturbed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub delays_ns: [u64; DELAYS],
    /// One group of operations in so many has each delay, before any of the budget is used.
    pub block_groups: u64,
    /// Time that threads may be held in all, summed.
    pub budget_ns: u64,
}

/// The time in which the operations of a delayed group began, by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub start_ns: u64,
    pub end_ns: u64,
    pub delay_ns: u64,
}

/// Delays the programs that were started with [`Perturbation::env`].
pub struct Perturbation {
    page: Arc<DelayPage>,
    /// The programs open this descriptor by its path under /proc.
    memory: OwnedFd,
    temp_dirs: Vec<PathBuf>,
    thread: Option<(Sender<()>, JoinHandle<Vec<Window>>)>,
    windows: Vec<Window>,
}

impl Perturbation {
    /// Makes the memory; nothing is delayed before [`Perturbation::start`]. Where directories are
    /// named, temp files are what lies under them.
    pub fn create(temp_dirs: Vec<PathBuf>) -> io::Result<Perturbation> {
        let fd = unsafe { libc::memfd_create(c"spillcast-delays".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let memory = unsafe { OwnedFd::from_raw_fd(fd) };
        let page = Arc::new(DelayPage::create(memory.as_fd())?);
        Ok(Perturbation { page, memory, temp_dirs, thread: None, windows: Vec::new() })
    }

    /// The variable through which programs find the memory: name and value.
    pub fn env(&self) -> (&'static str, String) {
        let memory = format!("/proc/{}/fd/{}", std::process::id(), self.memory.as_raw_fd());
        let dirs = self.temp_dirs.iter().map(|dir| dir.display().to_string());
        let parts: Vec<String> = std::iter::once(memory).chain(dirs).collect();
        (DELAY_PAGE_VARIABLE, parts.join(":"))
    }

    /// Begins, once.
    pub fn start(&mut self, plan: Plan) {
        if self.thread.is_some() {
            return;
        }
        self.page.set_delays(plan.delays_ns);
        let (stop, stopped) = channel();
        let page = Arc::clone(&self.page);
        let thread = std::thread::spawn(move || {
            run_soon();
            let mut groups = Groups { page: &page, next: 0, open: None, closed: Vec::new() };
            loop {
                match block_groups(&plan, slept_ns(&page)) {
                    Some(block_groups) => page.hold(block_groups, now_ns() + HOLD_NS),
                    None => page.end(),
                }
                let told = stopped.recv_timeout(TICK);
                groups.take();
                if told != Err(RecvTimeoutError::Timeout) {
                    page.end();
                    return groups.finish();
                }
            }
        });
        self.thread = Some((stop, thread));
    }

    /// Ends all delays.
    pub fn stop(&mut self) {
        self.page.end();
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            self.windows = thread.join().unwrap_or_default();
        }
    }

    /// What all of it added to the time of the run: at least, likely and at most.
    ///
    /// One thread was held for just so long. Of several, a delay may have held back the one that
    /// all wait for, or one that waits itself; all of them no longer than the windows lasted.
    pub fn cost_ns(&self) -> (u64, u64, u64) {
        let most_of_one_ns = self.page.slept_most_ns();
        if self.page.threads() < 2 {
            return (most_of_one_ns, most_of_one_ns, most_of_one_ns);
        }
        let windows_ns: u64 = self.windows.iter().map(|w| w.end_ns - w.start_ns + w.delay_ns).sum();
        let most_ns = slept_ns(&self.page).min(windows_ns).max(most_of_one_ns);
        (0, most_of_one_ns, most_ns)
    }

    pub fn threads(&self) -> u64 {
        self.page.threads()
    }

    /// The windows in which operations were delayed, once it has stopped.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// What each delay has done so far.
    pub fn delayed(&self) -> [Delayed; DELAYS] {
        self.page.delayed()
    }

    /// Whether any program has loaded the library and found the memory.
    pub fn ever_connected(&self) -> bool {
        self.page.attached() > 0
    }
}

impl Drop for Perturbation {
    fn drop(&mut self) {
        self.stop();
    }
}

fn slept_ns(page: &DelayPage) -> u64 {
    page.delayed().iter().map(|delayed| delayed.slept_ns).sum()
}

/// How many groups share one of each delay; None where the budget is all but used.
///
/// The share falls with the square of what is left, so that a run of any length is perturbed to its
/// end, ever more thinly.
fn block_groups(plan: &Plan, slept_ns: u64) -> Option<u64> {
    let left = 1.0 - slept_ns as f64 / plan.budget_ns.max(1) as f64;
    let groups = plan.block_groups as f64 / (left * left);
    (left > 0.0 && groups <= BLOCK_GROUPS_MAX).then_some((groups as u64).max(DELAYS as u64 + 1))
}

/// Follows the groups of operations as they begin.
struct Groups<'a> {
    page: &'a DelayPage,
    next: u64,
    /// A delayed group that lasts still.
    open: Option<Window>,
    closed: Vec<Window>,
}

impl Groups<'_> {
    fn take(&mut self) {
        let begun = self.page.groups();
        while self.next <= begun {
            match self.page.mark(self.next) {
                Some((start_ns, number)) => self.begin(start_ns, number),
                // The last one has not begun, or is being marked; an older one was missed.
                None if self.next == begun => return,
                None => self.open = None,
            }
            self.next += 1;
        }
    }

    fn begin(&mut self, start_ns: u64, number: u32) {
        let closed = self.open.take().map(|window| Window { end_ns: start_ns, ..window });
        self.closed.extend(closed);
        let delay_ns = self.page.delay_ns(number);
        self.open = (number > 0).then_some(Window { start_ns, end_ns: start_ns, delay_ns });
    }

    fn finish(mut self) -> Vec<Window> {
        let closed = self.open.take().map(|window| Window { end_ns: now_ns(), ..window });
        self.closed.extend(closed);
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::super::delay_page::GROUP;
    use super::*;

    const PLAN: Plan = Plan { delays_ns: [1, 2], block_groups: 8, budget_ns: 1_000_000_000 };

    #[test]
    fn fewer_groups_are_delayed_as_the_budget_goes() {
        let groups = [0, 500_000_000, 750_000_000, 1_000_000_000]
            .map(|slept_ns| block_groups(&PLAN, slept_ns));
        assert_eq!(groups, [Some(8), Some(32), Some(128), None]);
    }

    #[test]
    fn delays_end_by_themselves_when_their_owner_does_nothing_more() {
        let perturbation = Perturbation::create(Vec::new()).unwrap();
        perturbation.page.set_delays([300, 1000]);
        perturbation.page.hold(3, 5_000);
        let turns = |now_ns: u64| -> Vec<u32> {
            (0..60 * GROUP).map(|_| perturbation.page.turn(|| now_ns)).collect()
        };
        let before = turns(4_999);
        for number in 0..=2 {
            let count = before.iter().filter(|&&turn| turn == number).count() as u64;
            assert_eq!(count, 20 * GROUP, "delay {number}");
        }
        assert!(turns(5_000).iter().all(|&turn| turn == 0));
    }

    #[test]
    fn every_delayed_group_becomes_a_window() {
        let mut perturbation = Perturbation::create(Vec::new()).unwrap();
        perturbation.start(PLAN);
        let mut begun = Vec::new();
        while begun.len() < 40 * GROUP as usize {
            let now_ns = now_ns();
            begun.push((now_ns, perturbation.page.turn(|| now_ns)));
            std::thread::sleep(Duration::from_micros(50));
        }
        perturbation.stop();
        let windows = perturbation.windows();
        assert!(windows.is_sorted_by(|a, b| a.end_ns <= b.start_ns));
        for (now_ns, number) in begun {
            let within = windows.iter().find(|w| (w.start_ns..w.end_ns).contains(&now_ns));
            assert_eq!(within.map_or(0, |window| window.delay_ns), u64::from(number));
        }
    }
}
