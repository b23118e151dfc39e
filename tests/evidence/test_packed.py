"""Archives that cannot be unpacked are refused with the remedy."""

import io
import zipfile

import pytest

from cases import cases
from spillcast.errors import EvidenceUnsuited
from spillcast.evidence.open import find_evidence
from text_plan import TEXT_PLAN

#: Where the flags and the method of compression stand after a signature (APPNOTE of PKWARE, 4.3).
LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"
FLAGS = {LOCAL: 6, CENTRAL: 8}
METHOD = {LOCAL: 8, CENTRAL: 10}


@cases("places, value", [(FLAGS, 0x01), (METHOD, 99)])
def test_an_archive_with_a_password_or_an_unknown_compression_is_refused(tmp_path, places, value):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("plan.txt", TEXT_PLAN)
    archived = bytearray(content.getvalue())
    for signature, offset in places.items():
        archived[archived.find(signature) + offset] = value
    path = tmp_path / "plan.zip"
    path.write_bytes(archived)
    with pytest.raises(EvidenceUnsuited) as refusal:
        find_evidence([path])
    assert str(path) in str(refusal.value)
    assert refusal.value.hint
