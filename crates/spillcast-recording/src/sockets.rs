//! Whether processes have a connection to a server open.

use std::collections::BTreeSet;
use std::fs;

use spillcast_core::proc::{descriptors, family};

/// Whether a process or one it started holds a connected socket of its own, as a client.
pub fn has_server_connection(pid: i32) -> bool {
    let mut sockets_of_run: BTreeSet<u64> = family(pid).into_iter().flat_map(sockets).collect();
    // What was inherited from the recorder, as a terminal of ssh, is none of theirs.
    let inherited = sockets(std::process::id() as i32);
    sockets_of_run.retain(|socket| !inherited.contains(socket));
    !sockets_of_run.is_empty() && !sockets_of_run.is_disjoint(&connected(pid))
}

/// The inodes of the sockets that a process has open.
fn sockets(pid: i32) -> BTreeSet<u64> {
    let inode = |shown: &str| shown.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    descriptors(pid).filter_map(|(_, shown)| inode(shown.to_str()?)).collect()
}

/// The inodes of connected sockets in the process's network, without those that a server accepted.
fn connected(pid: i32) -> BTreeSet<u64> {
    let table = |name: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        let rows = text.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned));
        rows.map(Iterator::collect).collect::<Vec<Vec<String>>>()
    };
    let mut numbers = BTreeSet::new();
    for rows in [table("tcp"), table("tcp6")] {
        let port = |row: &[String]| row.get(1)?.rsplit_once(':').map(|(_, port)| port.to_owned());
        let state = |row: &[String]| row.get(3).cloned().unwrap_or_default();
        let listening: BTreeSet<_> =
            rows.iter().filter(|row| state(row) == "0A").filter_map(|row| port(row)).collect();
        let clients = rows.iter().filter(|row| state(row) == "01");
        let clients =
            clients.filter(|row| port(row).is_none_or(|number| !listening.contains(&number)));
        numbers.extend(clients.filter_map(|row| row.get(9)?.parse::<u64>().ok()));
    }
    // What a server accepted has the server's path.
    let clients = table("unix").into_iter().filter(|row| row.len() == 7 && row[5] == "03");
    numbers.extend(clients.filter_map(|row| row[6].parse::<u64>().ok()));
    numbers
}
