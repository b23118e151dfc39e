"""The table of captures on many CPUs, from the console output of the guest."""

from bench.wide.table import table

CALLS = '{"pread64": {"count": 4, "bytes": 32768, "offsets": 8192}}'
MORE = '{"pread64": {"count": 5, "bytes": 32768, "offsets": 8192}}'
CONSOLE = f"""SeaBIOS\r
row guest about {{"cpus": 64, "kernel": "6.1.0", "btf": "present"}}\r
row bare start {{"kind": "threads", "start_median_ns": 2000}}\r
row one counts {{"kind": "mixed", "calls": {CALLS}}}
row one counts {{"source": "one", "lost": 0, "calls": {CALLS}}}
row one start {{"kind": "threads", "start_median_ns": 3000}}
row one start {{"source": "one", "descriptors": 9}}
row one attach-1 {{"open_s": 0.25, "attach_s": 0.5, "descriptors": 128}}
row bare start {{"kind": "threads", "start_median_ns": 2200}}
row two counts {{"source": "two", "lost": 7, "calls": {MORE}}}
row two counts {{"kind": "mixed", "calls": {CALLS}}}
row two start {{"kind": "threads", "start_median_ns": 8400}}
row two attach-1 attach: Too many open files
[    9.1] reboot: Power down"""


def test_figures_are_shown_beside_their_targets():
    head, names, *lines = table(CONSOLE, ["one", "two"], [1]).splitlines()
    assert "64 emulated CPUs, BTF present" in head
    assert "2 us unobserved" in head
    assert names.split() == ["one", "two", "aim"]
    attach, descriptors, counts, start = (line.split("  ") for line in lines)
    cells = [[cell.strip() for cell in line if cell.strip()] for line in
             (attach, descriptors, counts, start)]  # fmt: skip
    assert cells == [
        ["attach to 1 threads", "0.75 s (0.25 to open)", "Too many open files", "under 1 s"],
        ["descriptors a CPU", "2.0", "-", "under 4"],
        ["counts, bytes, offsets", "exact", "not the same, 7 lost MISSED", "exact"],
        ["thread start, times unobserved", "1.4 (3 us)", "4.0 (8 us) MISSED", "at most 2"],
    ]


def test_a_guest_that_does_not_start_is_reported():
    assert table("Kernel panic", ["one"], [1]) == "the guest did not come up: Kernel panic"
