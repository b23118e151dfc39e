//! The limit of the CPU time of all threads together in each period.

/// A CPU limit of a control group (`cpu.max`).
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub quota_ns: u64,
    pub period_ns: u64,
}

/// CPU time left in the current period; the next periods repay a debt, which is below 0.
pub(crate) struct Budget {
    quota: Option<Quota>,
    left_ns: i64,
    /// Start of the next period.
    until_ns: u64,
}

impl Budget {
    /// Unlimited without a quota. A quota or period of 0 counts as 1 ns.
    pub fn new(quota: Option<Quota>) -> Budget {
        let quota = quota.map(|given| Quota {
            quota_ns: given.quota_ns.max(1),
            period_ns: given.period_ns.max(1),
        });
        Budget { quota, left_ns: 0, until_ns: 0 }
    }

    pub fn limited(&self) -> bool {
        self.quota.is_some()
    }

    /// CPU time left at `now_ns`.
    pub(crate) fn left_ns(&mut self, now_ns: u64) -> u64 {
        let Some(quota) = self.quota else { return u64::MAX };
        if now_ns >= self.until_ns {
            let periods = (now_ns - self.until_ns) / quota.period_ns + 1;
            let most_ns = quota.quota_ns as i64;
            let more_ns = most_ns.saturating_mul(periods as i64);
            self.left_ns = self.left_ns.min(0).saturating_add(more_ns).min(most_ns);
            self.until_ns += periods * quota.period_ns;
        }
        self.left_ns.max(0) as u64
    }

    /// Uses CPU time; more than is left becomes a debt.
    pub fn take(&mut self, ns: u64) {
        if self.quota.is_some() {
            self.left_ns -= ns as i64;
        }
    }

    /// Start of the next period, as updated by `left_ns`.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Time left in the period, its end relative to `now_ns`, and the debt, as of `left_ns`.
    pub fn state(&self, now_ns: u64) -> (u64, i64, u64) {
        let ends_ns = self.quota.map_or(0, |_| self.until_ns.wrapping_sub(now_ns) as i64);
        (self.left_ns.max(0) as u64, ends_ns, self.left_ns.min(0).unsigned_abs())
    }

    /// Advances by `ns`, in which `paid_ns` of the debt are repaid.
    pub(crate) fn pass(&mut self, ns: u64, paid_ns: u64) {
        if self.quota.is_some() {
            self.until_ns += ns;
            self.left_ns += paid_ns as i64;
        }
    }
}
