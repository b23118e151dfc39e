"""I/O as CSV with the headings of other tools, and file names of recordings."""

import numpy as np
import pytest

from cases import cases
from evidence import recording
from spillcast.cache.rows import of_recording, read_csv
from spillcast.columns import NAME, ColumnValues
from spillcast.errors import EvidenceDamaged, EvidenceIncomplete


@cases(
    "text",
    [
        "object,offset,bytes\nt1,0,4096\nt1,4096,8192\n",
        "Object,Offset,Size\nt1,0,4096\nt1,4096,8192\n",
        "\ufeffFILE;Offset;Length\nt1;0;4096\nt1;4096;8192\n",
        "size,bytes,object,offset\n1,4096,t1,0\n1,8192,t1,4096\n",
        "\n  \nOBJECT,OFFSET,BYTES\nt1,0,4096\nt1,4096,8192\n",
    ],
)
def test_headings_in_any_case_and_their_synonyms_are_read(tmp_path, text):
    path = tmp_path / "io.csv"
    path.write_text(text)
    io = read_csv([path]).io
    assert io["bytes"].to_pylist() == [4096, 8192]
    assert io["offset"].to_pylist() == [0, 4096]


def test_an_unknown_class_is_damage_of_its_file(tmp_path):
    path = tmp_path / "io.csv"
    path.write_text("object,offset,bytes,class\nt1,0,4096,wish\n")
    (other := tmp_path / "other.csv").write_text("object,offset,bytes,class\nt1,0,4096,scan\n")
    with pytest.raises(EvidenceDamaged) as raised:
        read_csv([other, path])
    assert raised.value.where == str(path)


def test_a_missing_column_is_refused(tmp_path):
    path = tmp_path / "io.csv"
    path.write_text("Object,Offset\nt1,0\n")
    with pytest.raises(EvidenceIncomplete):
        read_csv([path])


@cases(
    "text",
    [
        "\n\nobject,offset,bytes\nt1,0\n",
        "object,offset,bytes\nt1,0,1\nt1,0,1\nt1,0\nt1,0,1\n",
        "\nobject,offset,bytes\nt1,0,1\nt1,0\n\n\nt1,0,1\n",
    ],
)
def test_a_damaged_row_is_named_by_its_line(tmp_path, text):
    path = tmp_path / "io.csv"
    path.write_text(text)
    with pytest.raises(EvidenceDamaged, match="line 4 on"):
        read_csv([path])


def test_recorded_files_with_equal_names_keep_their_folders(tmp_path):
    made = recording(tmp_path / "run.spill", [("read", 8192, 3, 1000)], elapsed_s=1.0)
    files = ColumnValues.of(["/db/1/1249", "/db/2/1249", "/db/2/toast"], NAME)
    no_temp = np.zeros(3, dtype=bool)
    made.waits = made.waits.with_column("file", files).with_column("temp", no_temp)
    assert of_recording(made).objects == ["/db/1/1249", "/db/2/1249", "toast"]
