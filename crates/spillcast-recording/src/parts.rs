//! Raw waits in parts of equal time, packed on disk and thinned out as their number grows.
//!
//! A part covers 1 s, or 0.3 s if slices are kept. When there are too many rows, every second part
//! is dropped. The per-second histograms still cover the whole run, and a forecast uses them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use spillcast_core::packed::{pack, unpack};
use spillcast_core::wait::Wait;

/// Maximum number of open parts: those in which current waits start, and some with late ends.
const OPEN_MAX: usize = 4;
const BUFFER_BYTES: usize = 1 << 16;

/// Limits on the individual waits that are kept.
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

    /// The default bounds; parts are short if slices are kept, so that many fit into a short run.
    pub fn of(slices: Option<usize>) -> Bounds {
        let part_ns = if slices.is_some() { 300_000_000 } else { 1_000_000_000 };
        Bounds { part_ns, rows: Bounds::ROWS, parts: Bounds::PARTS, slices }
    }
}

/// The parts of a recording in progress, each in a file.
///
/// When there are too many rows or parts, every second part is dropped, and from then on only every
/// second one is kept: the rest is spread evenly over a run of any length. The same happens if a
/// part cannot be written, until none is left: the per-second rows count the same waits, so the
/// recording is not lost.
pub struct Parts {
    folder: PathBuf,
    bounds: Bounds,
    /// None if no part can be kept.
    stride: Option<i64>,
    /// Number of rows of each part.
    rows: BTreeMap<i64, u64>,
    open: BTreeMap<i64, BufWriter<File>>,
    packed: Vec<u8>,
    /// The first error of a part.
    pub trouble: Option<io::Error>,
}

impl Parts {
    /// Creates a folder for the parts.
    pub fn new(folder: PathBuf, bounds: Bounds) -> io::Result<Parts> {
        fs::create_dir(&folder)?;
        Ok(Parts {
            folder,
            bounds,
            stride: Some(1),
            rows: BTreeMap::new(),
            open: BTreeMap::new(),
            packed: Vec::new(),
            trouble: None,
        })
    }

    pub fn add(&mut self, wait: &Wait) {
        let index = wait.start_ns.div_euclid(self.bounds.part_ns);
        self.packed.clear();
        pack(wait, &mut self.packed);
        while self.stride.is_some_and(|stride| index % stride == 0) {
            match self.write(index) {
                Ok(()) => {
                    *self.rows.entry(index).or_default() += 1;
                    return;
                }
                Err(error) => self.use_fewer(error),
            }
        }
    }

    /// Drops parts while there are too many rows or parts.
    pub fn thin_out(&mut self) {
        while self.rows.len() > 1 && self.too_many() {
            self.halve();
        }
    }

    /// Makes do with fewer parts after an error, and with none if that does not help.
    pub fn use_fewer(&mut self, error: io::Error) {
        let gone = error.kind() == io::ErrorKind::NotFound && self.trouble.is_none();
        self.trouble.get_or_insert(error);
        if gone && make_folder(&self.folder).is_ok() {
            // The earlier content is lost; later waits can be kept.
            self.drop_parts(|_| false);
        } else if self.rows.len() > 1 {
            self.halve();
        } else {
            self.stride = None;
            self.drop_parts(|_| false);
        }
    }

    /// Whether waits are, or may be, kept.
    pub fn keeps_any(&self) -> bool {
        self.stride.is_some()
    }

    /// Flushes the buffers; returns the parts to keep, oldest first, and the row count of each.
    pub fn kept(&mut self) -> Vec<(i64, u64)> {
        while let Some(mut file) = self.open.first_entry() {
            let exists = || match fs::exists(self.folder.join(name(*file.key()))) {
                Ok(false) => Err(io::ErrorKind::NotFound.into()),
                _ => Ok(()),
            };
            match exists().and_then(|()| file.get_mut().flush()) {
                Ok(()) => drop(file.remove()),
                Err(error) => self.use_fewer(error),
            }
        }
        let kept: Vec<_> = self.rows.iter().map(|(&index, &rows)| (index, rows)).collect();
        let Some(slices) = self.bounds.slices.filter(|&slices| kept.len() > slices) else {
            return kept;
        };
        let step = (kept.len() - 1) as f64 / (slices.max(2) - 1) as f64;
        let evenly = |slice: usize| kept[(slice as f64 * step).round_ties_even() as usize];
        (0..slices).map(evenly).collect()
    }

    /// Passes on the rows of a part in order of arrival.
    pub fn read(&self, index: i64, mut each: impl FnMut(Wait) -> io::Result<()>) -> io::Result<()> {
        let mut file = BufReader::with_capacity(BUFFER_BYTES, File::open(self.path(index))?);
        for _ in 0..self.rows[&index] {
            each(unpack(&mut file)?)?;
        }
        Ok(())
    }

    pub fn span_ns(&self, index: i64) -> (i64, i64) {
        (index * self.bounds.part_ns, (index + 1) * self.bounds.part_ns)
    }

    pub fn remove(&self) {
        // Files that cannot be removed do no harm, and go with the folder.
        let _ = fs::remove_dir_all(&self.folder);
    }

    fn halve(&mut self) {
        // A stride this long keeps only the first part.
        let stride = self.stride.map(|stride| stride.saturating_mul(2));
        self.stride = stride;
        self.drop_parts(|index| stride.is_some_and(|stride| index % stride == 0));
    }

    fn drop_parts(&mut self, keep: impl Fn(i64) -> bool) {
        let surplus: Vec<i64> = self.rows.keys().chain(self.open.keys()).copied().collect();
        for index in surplus.into_iter().filter(|&index| !keep(index)) {
            self.rows.remove(&index);
            // Buffered rows need not be written.
            self.open.remove(&index).map(|file| file.into_parts());
            let _ = fs::remove_file(self.path(index));
        }
    }

    fn write(&mut self, index: i64) -> io::Result<()> {
        if !self.open.contains_key(&index) {
            self.open_part(index)?;
        }
        // The buffer takes either the whole row or nothing.
        self.open.get_mut(&index).expect("it is open now").write_all(&self.packed)
    }

    fn too_many(&self) -> bool {
        let parts = self.rows.len();
        match self.bounds.slices {
            Some(slices) => parts > 2 * slices,
            None => parts > self.bounds.parts || self.rows.values().sum::<u64>() > self.bounds.rows,
        }
    }

    /// A wait that ends long after the others of its part reopens the part.
    fn open_part(&mut self, index: i64) -> io::Result<()> {
        if self.open.len() == OPEN_MAX {
            let mut oldest = self.open.first_entry().expect("some are open");
            oldest.get_mut().flush()?;
            oldest.remove();
        }
        let file = OpenOptions::new().append(true).create(true).open(self.path(index))?;
        self.open.insert(index, BufWriter::with_capacity(BUFFER_BYTES, file));
        Ok(())
    }

    fn path(&self, index: i64) -> PathBuf {
        self.folder.join(name(index))
    }
}

/// Creates a folder, private to its user, unless it exists.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn name(index: i64) -> String {
    format!("{index:08}")
}
