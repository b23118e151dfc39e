//! The content of one line of an extended SQL trace, by kind of line.
//!
//! Times are as written: microseconds, or centiseconds before Oracle 9i.

/// The fault of a line, as a message for the user.
pub(crate) type Fault = &'static str;

/// One line, parsed independently of the lines around it.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    Wait(WaitLine),
    Call(CallLine),
    /// `PARSING IN CURSOR`: the statement's text follows, up to `END OF STMT`.
    Parsing(Box<ParsingLine>),
    /// `PARSE ERROR`: the statement's text follows, `len` bytes of it.
    ParseError {
        cursor: i64,
        len: i64,
        tim: i64,
    },
    EndOfStatement,
    Mark(Mark),
    /// A row source of an executed plan.
    Stat(Box<StatLine>),
    /// Bind values of a cursor follow.
    Binds {
        cursor: i64,
    },
    /// `ERROR`: a call failed with ORA-`err`.
    Error {
        err: i64,
        tim: i64,
    },
    /// A trace line that times no operation (XCTEND, a separator); `tim` is 0 if the line has none.
    Other {
        tim: i64,
    },
    Text,
}

/// `WAIT #cursor: nam='...' ela= N <three parameters> [obj#=N] [tim=N]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WaitLine {
    /// Index of the event's name in [`Scanned::events`](super::scan::Scanned::events).
    pub event: u32,
    pub cursor: i64,
    pub ela: i64,
    /// The event's three parameters, whose meaning depends on the event.
    pub params: [i64; 3],
    pub(crate) roles: [Role; 3],
    /// None if the trace has no object number, or a negative one.
    pub object: Option<u32>,
    /// Time at which the wait ended; 0 if unknown.
    pub tim: i64,
}

/// The meaning of a wait's parameter, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    File,
    Blocks,
    Bytes,
    /// `p1`, `p2` or `p3`, whose meaning depends on the event.
    Unnamed,
    Other,
}

/// A database call, or another operation with CPU and elapsed time on its line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallLine {
    pub kind: CallKind,
    /// 0 for LOB and RPC calls, which have no cursor.
    pub cursor: i64,
    pub c: i64,
    pub e: i64,
    /// Blocks read from disk, consistent gets, and current gets.
    pub p: i64,
    pub cr: i64,
    pub cu: i64,
    pub mis: i64,
    pub r: i64,
    /// Recursion depth; 0 for calls of the client.
    pub dep: u32,
    pub plh: i64,
    /// 0 if unknown.
    pub tim: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum CallKind {
    #[default]
    Parse,
    Exec,
    Fetch,
    Unmap,
    SortUnmap,
    Close,
    Lob,
    Rpc,
}

impl CallKind {
    pub const ALL: [CallKind; 8] = {
        use CallKind::*;
        [Parse, Exec, Fetch, Unmap, SortUnmap, Close, Lob, Rpc]
    };

    pub fn name(self) -> &'static str {
        match self {
            CallKind::Parse => "PARSE",
            CallKind::Exec => "EXEC",
            CallKind::Fetch => "FETCH",
            CallKind::Unmap => "UNMAP",
            CallKind::SortUnmap => "SORT UNMAP",
            CallKind::Close => "CLOSE",
            CallKind::Lob => "LOB",
            CallKind::Rpc => "RPC",
        }
    }
}

/// `PARSING IN CURSOR #cursor len= dep= uid= oct= lid= tim= hv= ad='...' [sqlid='...']`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsingLine {
    pub cursor: i64,
    /// Length of the statement's text in bytes.
    pub len: i64,
    pub dep: i64,
    pub uid: i64,
    pub oct: i64,
    pub lid: i64,
    pub tim: i64,
    pub hv: i64,
    pub ad: String,
    /// Empty before Oracle 11g.
    pub sqlid: String,
}

/// `STAT #cursor id=N cnt=N pid=N pos=N obj=N op='...'`: a row source, with figures that include
/// the row sources below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatLine {
    pub cursor: i64,
    /// The line of the plan and its parent line; 0 for the parent of the first.
    pub id: i64,
    pub pid: i64,
    pub pos: i64,
    /// Number of rows returned.
    pub cnt: i64,
    pub obj: i64,
    /// As in a plan, such as `HASH JOIN OUTER`.
    pub op: String,
    /// Consistent gets, physical reads and writes in blocks, and microseconds; absent before 9.2.
    /// Starts are present from 12.2 on.
    pub cr: Option<i64>,
    pub pr: Option<i64>,
    pub pw: Option<i64>,
    pub starts: Option<i64>,
    pub time_us: Option<i64>,
}

/// A line that describes the origin of the lines after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mark {
    /// The first line of a file; a file that was appended to another starts afresh here.
    Header,
    /// The release of the database, as in 19.12.0.0.
    Release([u16; 4]),
    /// `*** SESSION ID:(sid.serial)`
    Session { sid: i64, serial: i64 },
    /// `Unix process pid: N`: the process of the file.
    Process { pid: i64 },
    /// `*** [ Unix process pid: N ]`: the lines of another process follow, in a merged file.
    Switch { pid: i64 },
    /// `*** DUMP FILE SIZE IS LIMITED TO N BYTES ***`
    SizeLimit,
    /// `*** 2017-06-27 13:56:36.872`: local time of the database, in microseconds since 1970.
    Time { local_us: i64 },
    /// Any other line after three stars, such as a module or a continuation of the trace.
    Stars,
}
