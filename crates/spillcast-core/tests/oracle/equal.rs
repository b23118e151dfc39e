//! The trace reader equals a slow, obvious one for any content and any division into chunks.

use crate::compare::{fast, without_rows};
use crate::slow;
use crate::writer::Writer;
use proptest::prelude::*;
use spillcast_core::oracle::KEPT_PER_FILE;

fn trace(pieces: &[(u8, u64)], crlf: bool) -> Vec<u8> {
    let mut writer = Writer::default();
    for &(kind, seed) in pieces {
        writer.piece(kind, seed);
    }
    writer.finish(crlf)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn fast_equals_slow(
        pieces in prop::collection::vec((0u8..64, any::<u64>()), 0..60),
        crlf in prop::bool::weighted(0.2),
        lenient: bool,
        chunk_bytes in prop_oneof![Just(1usize), 1usize..400, Just(1 << 20)],
    ) {
        let bytes = trace(&pieces, crlf);
        let mut expected = without_rows(slow::read(&bytes, lenient));
        expected.damaged_lines.truncate(KEPT_PER_FILE);
        let trace = String::from_utf8_lossy(&bytes);
        prop_assert_eq!(fast(&bytes, lenient, chunk_bytes), expected, "{}", trace);
    }
}
