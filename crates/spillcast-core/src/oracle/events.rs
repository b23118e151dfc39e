//! Classifies wait events by name: read or write, temporary segments or not, idle or not.

use crate::wait::Op;

/// The properties that follow from an event's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass {
    pub op: Op,
    /// Whether the blocks belong to temporary segments. The direct path events before Oracle 10g do
    /// not show this and count as not temporary.
    pub temp: bool,
    /// Whether Oracle's wait class is Idle, or the session waits for its client: time that no
    /// change in the database shortens.
    pub idle: bool,
    /// Whether unnamed parameters `p1 p2 p3` are file number, block number, blocks.
    pub(super) unnamed_blocks: bool,
}

pub fn classify(name: &str) -> EventClass {
    let op = op(name);
    EventClass {
        op,
        temp: op != Op::Null && name.ends_with(" temp"),
        idle: is_idle(name),
        unnamed_blocks: ["db file s", "direct path ", "control file s"]
            .iter()
            .any(|family| name.starts_with(family)),
    }
}

/// Families of events whose names distinguish reads, scans and writes.
const STORAGE: [&str; 6] =
    ["db file ", "direct path ", "control file ", "log file ", "cell ", "Data file "];

fn op(name: &str) -> Op {
    if name == "local write wait" || name.ends_with(" write") {
        return Op::Write;
    }
    if !STORAGE.iter().any(|family| name.starts_with(family)) {
        return Op::Null;
    }
    if name.starts_with("direct path write") {
        Op::Write
    } else if name.contains(" read") || name.contains(" scan") {
        Op::Read
    } else {
        Op::Null
    }
}

fn is_idle(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "SQL*Net message from client",
        "SQL*Net vector message from client",
        "Net message from client",
        "single-task message",
        "PL/SQL lock timer",
        "PX Idle Wait",
        "PX Deque wait",
        "pipe get",
        "pmon timer",
        "smon timer",
        "rdbms ipc message",
        "jobq slave wait",
        "class slave wait",
        "wait for unread message on broadcast channel",
        "VKTM Logical Idle Wait",
        "Space Manager: slave idle wait",
    ];
    const FAMILIES: [&str; 3] = ["PX Deq: ", "Streams AQ: waiting ", "DIAG idle wait"];
    NAMES.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_distinguish_reads_and_writes() {
        for (name, op, temp) in [
            ("direct path read temp", Op::Read, true),
            ("direct path write temp", Op::Write, true),
            ("direct path read", Op::Read, false),
            ("direct path write (lob)", Op::Write, false),
            ("db file sequential read", Op::Read, false),
            ("db file parallel write", Op::Write, false),
            ("cell smart table scan", Op::Read, false),
            ("cell single block physical read: flash cache", Op::Read, false),
            ("local write wait", Op::Write, false),
            ("log file parallel write", Op::Write, false),
            ("log file sync", Op::Null, false),
            ("read by other session", Op::Null, false),
            ("ASM IO for non-blocking poll", Op::Null, false),
            ("SQL*Net message from client", Op::Null, false),
        ] {
            let class = classify(name);
            assert_eq!((class.op, class.temp), (op, temp), "{name}");
        }
    }

    #[test]
    fn waiting_for_the_client_is_idle_and_sending_to_it_is_not() {
        assert!(classify("SQL*Net message from client").idle);
        assert!(classify("PX Deq: Execute Reply").idle);
        assert!(!classify("SQL*Net message to client").idle);
        assert!(!classify("SQL*Net more data from client").idle);
        assert!(!classify("direct path read temp").idle);
    }
}
