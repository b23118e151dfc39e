//! Raw waits in parts of equal time, packed on disk: thinned out when they grow many.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::PathBuf;

use spillcast_core::packed::{pack, unpack};
use spillcast_core::wait::Wait;

/// Parts whose files are held open: those that waits of now begin in, and some that end late.
const OPEN_MAX: usize = 4;
const BUFFER_BYTES: usize = 1 << 16;

/// How much is kept of the single waits.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Length of a part, ns.
    pub part_ns: i64,
    pub rows: u64,
    pub parts: usize,
    /// Parts to keep at the end; None for all.
    pub slices: Option<usize>,
}

impl Bounds {
    pub const ROWS: u64 = 10_000_000;
    pub const PARTS: usize = 2_000;

    /// The usual ones; parts are short where slices are asked for, so that many fit into a short run.
    pub fn of(slices: Option<usize>) -> Bounds {
        let part_ns = if slices.is_some() { 300_000_000 } else { 1_000_000_000 };
        Bounds { part_ns, rows: Bounds::ROWS, parts: Bounds::PARTS, slices }
    }
}

/// The parts of a recording under way, each a file.
///
/// Whenever too many rows or parts are held, every second part is dropped and from then on only
/// every second one is kept: what remains is spread evenly over the run, however long it gets.
pub struct Parts {
    folder: PathBuf,
    bounds: Bounds,
    stride: i64,
    /// Rows of each part.
    rows: BTreeMap<i64, u64>,
    open: BTreeMap<i64, BufWriter<File>>,
    packed: Vec<u8>,
}

impl Parts {
    /// Parts in a folder that is made for them.
    pub fn new(folder: PathBuf, bounds: Bounds) -> io::Result<Parts> {
        fs::create_dir(&folder)?;
        let (rows, open) = (BTreeMap::new(), BTreeMap::new());
        Ok(Parts { folder, bounds, stride: 1, rows, open, packed: Vec::new() })
    }

    pub fn add(&mut self, wait: &Wait) -> io::Result<()> {
        let index = wait.start_ns.div_euclid(self.bounds.part_ns);
        if index % self.stride != 0 {
            return Ok(());
        }
        if !self.open.contains_key(&index) {
            self.open_part(index)?;
        }
        self.packed.clear();
        pack(wait, &mut self.packed);
        self.open.get_mut(&index).expect("it is open now").write_all(&self.packed)?;
        *self.rows.entry(index).or_default() += 1;
        Ok(())
    }

    /// Drops parts while too many rows or parts are held.
    pub fn thin_out(&mut self) -> io::Result<()> {
        while self.rows.len() > 1 && self.too_many() {
            self.stride *= 2;
            let surplus: Vec<i64> =
                self.rows.keys().copied().filter(|index| index % self.stride != 0).collect();
            for index in surplus {
                self.rows.remove(&index);
                // What is still buffered need not go to disk.
                self.open.remove(&index).map(|file| file.into_parts());
                fs::remove_file(self.path(index))?;
            }
        }
        Ok(())
    }

    /// Writes what is buffered; the parts to keep, oldest first, and the rows of each.
    pub fn kept(&mut self) -> io::Result<Vec<(i64, u64)>> {
        while let Some((_, mut file)) = self.open.pop_first() {
            file.flush()?;
        }
        let kept: Vec<_> = self.rows.iter().map(|(&index, &rows)| (index, rows)).collect();
        let Some(slices) = self.bounds.slices.filter(|&slices| kept.len() > slices) else {
            return Ok(kept);
        };
        let step = (kept.len() - 1) as f64 / (slices.max(2) - 1) as f64;
        let evenly = |slice: usize| kept[(slice as f64 * step).round_ties_even() as usize];
        Ok((0..slices).map(evenly).collect())
    }

    /// Gives the rows of a part in the order in which they came.
    pub fn read(&self, index: i64, mut each: impl FnMut(Wait) -> io::Result<()>) -> io::Result<()> {
        let mut file = BufReader::with_capacity(BUFFER_BYTES, File::open(self.path(index))?);
        for _ in 0..self.rows[&index] {
            each(unpack(&mut file)?)?;
        }
        Ok(())
    }

    /// Start and end of a part.
    pub fn span_ns(&self, index: i64) -> (i64, i64) {
        (index * self.bounds.part_ns, (index + 1) * self.bounds.part_ns)
    }

    /// Removes all of it.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)
    }

    fn too_many(&self) -> bool {
        let parts = self.rows.len();
        match self.bounds.slices {
            Some(slices) => parts > 2 * slices,
            None => parts > self.bounds.parts || self.rows.values().sum::<u64>() > self.bounds.rows,
        }
    }

    /// A wait that ends long after the others of its part opens it again.
    fn open_part(&mut self, index: i64) -> io::Result<()> {
        if self.open.len() == OPEN_MAX {
            let (_, mut oldest) = self.open.pop_first().expect("some are open");
            oldest.flush()?;
        }
        let file = OpenOptions::new().append(true).create(true).open(self.path(index))?;
        self.open.insert(index, BufWriter::with_capacity(BUFFER_BYTES, file));
        Ok(())
    }

    fn path(&self, index: i64) -> PathBuf {
        self.folder.join(format!("{index:08}"))
    }
}
