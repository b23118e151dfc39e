//! Writes traces piece by piece, with every kind of line, content and damage of real ones.

/// Pseudorandom numbers, reproducible by seed (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }
}

/// A trace in progress.
#[derive(Default)]
pub struct Writer {
    pub text: Vec<u8>,
    tim: i64,
}

pub const PIECES: u8 = 24;

const FAKE: [&str; 4] = [
    "WAIT #7: nam='direct path read temp' ela= 777 file number=1 first dba=2 block cnt=3 obj#=4 tim=5",
    "EXEC #7:c=1,e=2,p=3,cr=4,cu=5,mis=0,r=0,dep=0,og=1,plh=0,tim=99",
    "=====================",
    "*** 2024-03-26T15:33:50.332154-07:00 (PDB1(3))",
];

impl Writer {
    /// Appends a piece of this kind, with details from `seed`.
    pub fn piece(&mut self, kind: u8, seed: u64) {
        let random = &mut Random::new(seed);
        match kind % PIECES {
            0..=5 => self.wait(random),
            6 | 7 => self.call(random),
            8 => self.statement(random, "END OF STMT\n"),
            9 => self.statement(random, ""),
            10 | 11 => self.binds(random),
            12 => self.other(random),
            13 => self.parse_error(random),
            14 => self.without_cursor(random),
            15 => self.stars(random),
            16 => self.header(random),
            17 => self.garbage(random),
            18 => self.cut(random),
            19 => self.tim += [-3_000_000, -500, 60_000_000][random.below(3) as usize],
            20 => self.line(random.pick(&[
                "",
                " ",
                "\r",
                "END OF STMT",
                "text",
                " value=\"open",
                "Oracle",
            ])),
            21 => self.line(&format!(
                "<p>See {} there</p>",
                FAKE[0].replace('\'', random.pick(&["'", "\u{2019}"]))
            )),
            22 => self.line(random.pick(&[
                "WAIT #",
                "WAIT #1: nam='x",
                "FETCH #3:c=0,e=1",
                "EXEC #",
                "PARSING IN CURSOR #4 len=3",
                "STAT #1 id=1",
                "XCTEND rlbk=",
                "CLOSE #2:c=x,e=1,tim=2",
            ])),
            _ => self.wait_within_call(random),
        }
    }

    fn line(&mut self, line: &str) {
        self.text.extend_from_slice(line.as_bytes());
        self.text.push(b'\n');
    }

    fn tim(&mut self, random: &mut Random) -> i64 {
        self.tim += random.below(20_000) as i64;
        self.tim
    }

    fn cursor(random: &mut Random) -> i64 {
        [0, 3, 4, 140_104_917_118_680, -1_217_084_404][random.below(5) as usize]
    }

    pub fn wait(&mut self, random: &mut Random) {
        let cursor = Self::cursor(random);
        let (name, params) = [
            ("direct path read temp", "file number=203 first dba=2827236 block cnt=31"),
            ("direct path write temp", "file number=201 first dba=4355 block cnt=1"),
            ("db file sequential read", "file#=8 block#=31367 blocks=1"),
            ("db file scattered read", "p1=4 p2=77 p3=16"),
            ("SQL*Net message from client", "driver id=1413697536 #bytes=1 p3=0"),
            (
                "cell multiblock physical read",
                "cellhash#=3176594409 diskhash#=18446744073709551615 bytes=1048576",
            ),
            ("local write wait", "file#=201 block#=2 p3=0"),
            (
                "enq: TX - row lock contention",
                "name|mode=1415053318 usn<<16 | slot=589848 sequence=-1",
            ),
            ("PGA memory operation", "p1=65536 p2=1 p3=0"),
            ("it's", "p1=1 p2=2 p3=3"),
            ("r\u{e9}seau", "a=1 b=2 c=3"),
        ][random.below(11) as usize];
        let quote = random.pick(&["'", "'", "'", "\""]);
        let space = random.pick(&[" ", "", "  "]);
        let ela = match random.below(12) {
            0 => 0,
            1 => -5,
            2 => 18_446_744_073_709_551,
            _ => random.below(20_000) as i64,
        };
        let obj = random.pick(&[" obj#=99574", " obj#=-1", ""]);
        let tim = match random.below(6) {
            0 => String::new(),
            1 => " tim=0".into(),
            _ => format!(" tim={}", self.tim(random)),
        };
        let end = random.pick(&["", "", "", "", " ", "\r", " x"]);
        self.line(&format!(
            "WAIT #{cursor}: nam={quote}{name}{quote} ela={space}{ela} {params}{obj}{tim}{end}"
        ));
    }

    pub fn call(&mut self, random: &mut Random) {
        let kind =
            random.pick(&["PARSE", "EXEC", "FETCH", "FETCH", "UNMAP", "SORT UNMAP", "CLOSE"]);
        let (cursor, dep) = (Self::cursor(random), random.below(4));
        let (c, e, tim) = (random.below(5) * 1_000, random.below(9_000), self.tim(random));
        let plh = random.pick(&[",plh=813480514", "", ",new=7"]);
        self.line(&match kind {
            "CLOSE" => format!("CLOSE #{cursor}:c={c},e={e},dep={dep},type=1,tim={tim}"),
            _ => format!(
                "{kind} #{cursor}:c={c},e={e},p=1,cr=4,cu=0,mis=0,r=1,dep={dep},og=4{plh},tim={tim}"
            ),
        });
    }

    fn wait_within_call(&mut self, random: &mut Random) {
        self.wait(random);
        self.call(random);
    }

    fn sql(random: &mut Random) -> String {
        let mut lines = vec!["select /* \u{e4} */ *".to_string()];
        for _ in 0..random.below(4) {
            lines.push(random.pick(&FAKE).to_string());
        }
        lines.push("from t where a = 'value=\"'".into());
        lines.join("\n")
    }

    fn statement(&mut self, random: &mut Random, end: &str) {
        let sql = Self::sql(random);
        let (cursor, tim) = (Self::cursor(random), self.tim(random));
        let len = sql.len() as i64 + [0, 0, 0, 1, -9, 40][random.below(6) as usize];
        let sqlid = random.pick(&["", " sqlid='0gjpt6cdt5vxb'", " sqlid='7ng34ruy5awxq'"]);
        self.line("=====================");
        self.line(&format!("PARSING IN CURSOR #{cursor} len={len} dep=0 uid=5 oct=3 lid=5 tim={tim} hv=46261 ad='9d37bed8'{sqlid}"));
        self.line(&sql);
        self.text.extend_from_slice(end.as_bytes());
    }

    fn binds(&mut self, random: &mut Random) {
        let (cursor, fake) = (Self::cursor(random), random.pick(&FAKE));
        let value = format!("first\n{fake}\nlast");
        self.line(&format!("BINDS #{cursor}:\n Bind#0\n  oacdty=01 mxl=32(11) mxlc=00"));
        self.line(&format!("  kxsbbbfp=7f6cb7d0  bln=32  avl={:02}  flg=05", value.len()));
        self.line(&match random.below(6) {
            0 => "  value=110".into(),
            1 => "  value=\"plain\"".into(),
            2 => "  value=\"\"".into(),
            3 => format!("  value=\"{value}\"..."),
            4 => format!("  value=\"{value}"),
            _ => format!("  value=\"{value}\""),
        });
    }

    fn other(&mut self, random: &mut Random) {
        let (cursor, tim) = (Self::cursor(random), self.tim(random));
        self.line(&match random.below(5) {
            0 => format!("STAT #{cursor} id=1 cnt=1 pid=0 pos=1 obj=18 op='INDEX RANGE SCAN I_OBJ2 (cr=3 pr=0)'"),
            1 => "XCTEND rlbk=0, rd_only=1".into(),
            2 => format!("XCTEND rlbk=0, rd_only=0, tim={tim}"),
            3 => format!("ERROR #{cursor}:err=2289 tim={tim}"),
            _ => "=====================".into(),
        });
    }

    fn parse_error(&mut self, random: &mut Random) {
        let (cursor, tim, sql) = (Self::cursor(random), self.tim(random), Self::sql(random));
        let len = sql.len() as i64 + [0, 0, -30, 30][random.below(4) as usize];
        self.line(&format!(
            "PARSE ERROR #{cursor}:len={len} dep=0 uid=5 oct=3 lid=5 tim={tim} err=942"
        ));
        self.line(&sql);
    }

    fn without_cursor(&mut self, random: &mut Random) {
        let tim = self.tim(random);
        self.line(&match random.below(4) {
            0 => format!("LOBREAD: type=TEMPORARY LOB,bytes=9,c=0,e=42,p=0,cr=0,cu=1,tim={tim}"),
            1 => format!("LOBTMPCREATE:c=0,e=7,p=0,cr=0,cu=0,tim={tim}"),
            2 => "RPC CALL:FUNCTION X.Y RETURNS NUMBER;".into(),
            _ => "RPC EXEC:c=10000,e=12345".into(),
        });
    }

    fn stars(&mut self, random: &mut Random) {
        self.line(random.pick(&[
            "*** 2017-06-27 13:56:36.872",
            "*** 2018-09-14T10:19:26.416982-05:00 (PDB(5))",
            "*** SESSION ID:(35.65385) 2024-03-26T16:08:36.086107-07:00",
            "*** SESSION ID:(1197.58750) 2024-03-26T15:33:50.332164-07:00",
            "*** SESSION ID:(broken",
            "*** MODULE NAME:(SQL*Plus) 2017-01-18 12:07:55.101",
            "*** TRACE CONTINUED FROM FILE /u01/trace/cdb1_ora_3802.trc ***",
            "*** DUMP FILE SIZE IS LIMITED TO 10485760 BYTES ***",
            "*** [ Unix process pid: 9850 ]",
            "*** [ Unix process pid: 9854 ]",
        ]));
    }

    pub fn header(&mut self, random: &mut Random) {
        self.line(
            random.pick(&["Trace file /u01/trace/x_ora_1.trc", "Dump file c:\\udump\\ora_2.trc"]),
        );
        self.line(random.pick(&[
            "Oracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production",
            "Oracle8i Enterprise Edition Release 8.1.7.0.0 - Production",
            "Oracle9i Enterprise Edition Release 9.2.0.1.0 - Production",
            "Oracle Database 11g Enterprise Edition Release 11.1.0.7.0 - 64bit Production",
        ]));
        self.line("Unix process pid: 9850, image: oracle@host");
    }

    fn garbage(&mut self, random: &mut Random) {
        for _ in 0..random.below(40) {
            self.text.push(random.next() as u8);
        }
    }

    /// Cuts off the end of the last line, or lines.
    fn cut(&mut self, random: &mut Random) {
        let lost = random.below(90) as usize;
        self.text.truncate(self.text.len().saturating_sub(lost));
    }

    /// The trace as a file, with CRLF line ends as from Windows if `crlf`.
    pub fn finish(self, crlf: bool) -> Vec<u8> {
        if !crlf {
            return self.text;
        }
        self.text.split(|&byte| byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..])
    }
}
