//! Memory for reads: one buffer for each read in progress, the most recently used first.

use std::sync::Mutex;

#[derive(Default)]
pub struct Buffers {
    idle: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// Gives `work` a buffer of at least `bytes`, with anything in it.
    pub fn with<R>(&self, bytes: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut buffer = self.lock().pop().unwrap_or_default();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        let result = work(&mut buffer[..bytes]);
        self.lock().push(buffer);
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.idle.lock().expect("nothing panics with the lock held")
    }
}
