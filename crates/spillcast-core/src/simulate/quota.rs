//! The CPU time that all threads together may have: so much of each period, and then none.

/// A limit as a control group has it.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    pub quota_ns: u64,
    pub period_ns: u64,
}

/// What is left of the period's CPU time; below 0 it is owed to the next ones.
pub struct Budget {
    quota: Option<Quota>,
    left_ns: i64,
    /// When the next period begins.
    until_ns: u64,
}

impl Budget {
    /// Without a quota nothing limits it. What is 0 is taken for 1.
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

    /// What may be had at `now_ns`.
    pub fn left_ns(&mut self, now_ns: u64) -> u64 {
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

    /// Somebody has so much of it.
    pub fn take(&mut self, ns: u64) {
        if self.quota.is_some() {
            self.left_ns -= ns as i64;
        }
    }

    /// When there is more, as of the last look.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// As of the last look: what is left of the period, its end as seen from `now_ns`, and what is owed
    /// to the next ones.
    pub fn state(&self, now_ns: u64) -> (u64, i64, u64) {
        let ends_ns = self.quota.map_or(0, |_| self.until_ns.wrapping_sub(now_ns) as i64);
        (self.left_ns.max(0) as u64, ends_ns, self.left_ns.min(0).unsigned_abs())
    }

    /// Time passes in which so much of what is owed is paid, and nothing else changes.
    pub fn pass(&mut self, ns: u64, paid_ns: u64) {
        if self.quota.is_some() {
            self.until_ns += ns;
            self.left_ns += paid_ns as i64;
        }
    }
}
