//! The limit of the CPU time that all threads together may have in each period.

/// A limit as a control group has it.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub quota_ns: u64,
    pub period_ns: u64,
}

/// CPU time left in the current period; a debt below 0 is paid by the next periods.
pub(crate) struct Budget {
    quota: Option<Quota>,
    left_ns: i64,
    /// Begin of the next period.
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

    /// Begin of the next period, as of the last `left_ns`.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// As of the last `left_ns`: time left in the period, its end from `now_ns` on, and the debt.
    pub fn state(&self, now_ns: u64) -> (u64, i64, u64) {
        let ends_ns = self.quota.map_or(0, |_| self.until_ns.wrapping_sub(now_ns) as i64);
        (self.left_ns.max(0) as u64, ends_ns, self.left_ns.min(0).unsigned_abs())
    }

    /// Moves on by `ns`, in which `paid_ns` of the debt are paid.
    pub(crate) fn pass(&mut self, ns: u64, paid_ns: u64) {
        if self.quota.is_some() {
            self.until_ns += ns;
            self.left_ns += paid_ns as i64;
        }
    }
}
