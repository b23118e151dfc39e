"""The block size: from the option, spooled parameters, a trace's header, or the default."""

import gzip

import pytest

from cases import cases
from oracle_files import READ, blocks, write_trace
from spillcast.errors import EvidenceMissing, EvidenceMixed, OptionInvalid
from spillcast.evidence.open import find_evidence
from spillcast.evidence.oracle.collected import BlockSize, block_size
from spillcast.evidence.selection import Selection, parse_block


def parameters(path, size):
    """Block size parameters as ``collect oracle`` spools them."""
    rows = [("control_management_pack_access", "NONE"), ("db_block_size", size)]
    lines = ['"NAME","VALUE"', *(f'"{name}","{value}"' for name, value in rows)]
    path.write_text("\n" + "\n".join(lines) + "\n")
    return path


def trace(path, head=""):
    write_trace(path, [(READ, 1_000, blocks(31))])
    path.write_text(head + path.read_text())
    return path


@cases(("text", "size"), [("16K", 16_384), ("8192", 8_192), ("32 KiB", 32_768)])
def test_sizes(text, size):
    assert parse_block(text) == size


@cases("text", ["12K", "64K", "0"])
def test_invalid_block_sizes_are_refused(text):
    with pytest.raises(OptionInvalid, match=f"--block {text}") as caught:
        parse_block(text)
    assert "2K, 4K, 8K, 16K, 32K" in caught.value.hint
    with pytest.raises(OptionInvalid, match=f"--block {text}"):
        assert Selection(block=text).block_bytes


def test_a_number_without_a_unit_is_refused():
    with pytest.raises(OptionInvalid, match="--block: '16' has no unit") as caught:
        parse_block("16")
    assert "16K" in caught.value.hint


def test_the_most_reliable_source_of_the_block_size_wins(tmp_path):
    spooled = parameters(tmp_path / "spillcast_parameters.csv", 16384)
    header = trace(tmp_path / "a.trc", "  db_block_size            = 32768\n")
    silent = trace(tmp_path / "b.trc")
    assert block_size("4K", [spooled], [header]) == BlockSize(4_096, "--block")
    assert block_size(None, [spooled], [header]) == BlockSize(16_384, spooled.name)
    reported = block_size(None, [], [silent, header])
    assert reported == BlockSize(32_768, "the header of a.trc")
    assert block_size(None, [], [silent]) == BlockSize(8_192, None)


def test_the_header_of_a_packed_trace_is_read(tmp_path):
    plain = trace(tmp_path / "a.trc", "db_block_size=2048\n")
    packed = tmp_path / "a.trc.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert block_size(traces=[packed]).bytes == 2_048


def test_two_block_sizes_are_refused_and_impossible_ones_ignored(tmp_path):
    two = [parameters(tmp_path / f"{size}.csv", size) for size in (8192, 16384)]
    with pytest.raises(EvidenceMixed, match=r"8 KiB in .* and 16 KiB in "):
        block_size(parameters=two)
    odd = parameters(tmp_path / "odd.csv", 12345)
    assert block_size(parameters=[odd]).known_from is None


def test_parameters_are_recognised_by_content_and_are_not_evidence_alone(tmp_path):
    spooled = parameters(tmp_path / "p.csv", 8192)
    beside = trace(tmp_path / "a.trc")
    result = find_evidence([spooled, beside])
    assert (result.parameters, result.traces, result.only_kind()) == ([spooled], [beside], "traces")
    with pytest.raises(EvidenceMissing):
        find_evidence([spooled]).only_kind()
