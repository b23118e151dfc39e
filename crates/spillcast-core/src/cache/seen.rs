//! Counts distinct lines by the bits that their hashes set (linear counting, Whang et al. 1990).

pub struct Seen {
    bits: Vec<u64>,
    unset: u64,
    /// Bits unset when the run began, and those that requests that count have set since.
    unset_before: u64,
    set_by_counted: u64,
}

impl Seen {
    const BITS: u32 = 24;

    pub fn new() -> Seen {
        let unset = 1 << Seen::BITS;
        let bits = vec![0; 1 << (Seen::BITS - 6)];
        Seen { bits, unset, unset_before: unset, set_by_counted: 0 }
    }

    pub fn begin_run(&mut self) {
        (self.unset_before, self.set_by_counted) = (self.unset, 0);
    }

    #[inline]
    pub fn use_line(&mut self, hash: u64, counts: bool) {
        let at = hash & ((1 << Seen::BITS) - 1);
        let word = &mut self.bits[(at / 64) as usize];
        let new = !*word >> (at % 64) & 1;
        *word |= new << (at % 64);
        self.unset -= new;
        self.set_by_counted += new & u64::from(counts);
    }

    /// Estimated requests of this run that count and are the first of their line.
    pub fn firsts(&self) -> f64 {
        let set = self.unset_before - self.unset;
        if set == 0 {
            return 0.0;
        }
        let lines =
            f64::from(1 << Seen::BITS) * (self.unset_before as f64 / self.unset.max(1) as f64).ln();
        lines * self.set_by_counted as f64 / set as f64
    }

    /// Standard deviation of that estimate: some lines set the same bits.
    pub fn firsts_deviation(&self) -> f64 {
        let set = self.unset_before - self.unset;
        if set == 0 {
            return 0.0;
        }
        if self.unset == 0 {
            return f64::INFINITY;
        }
        let bits = f64::from(1 << Seen::BITS);
        let load = (self.unset_before as f64 / self.unset as f64).ln();
        let lines = (bits * (load.exp() - load - 1.0)).sqrt();
        lines * self.set_by_counted as f64 / set as f64
    }
}
