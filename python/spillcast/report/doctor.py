"""What works on this machine, as a page."""

from spillcast.lab.doctor import Diagnosis
from spillcast.report.page import Page, Words
from spillcast.report.table import Column, Table

_WORKS, _WHAT = Column("works", "works"), Column("what", "what")
_HOW, _MEND = Column("how", "detail"), Column("mended by", "mend")


def doctor_page(found: Diagnosis) -> Page:
    """What was looked at, then a command for each thing that does not work and can be mended."""
    commit = f" ({found.commit})" if found.commit else ""
    version = f"spillcast {found.spillcast}{commit}, Python {found.python}, Linux {found.kernel}"
    rows = [
        ["yes" if one.works else "no", one.name, one.detail, one.mend] for one in found.findings
    ]
    looked = Table((_WORKS, _WHAT, _HOW), [row[:3] for row in rows])
    mends = [[one.name, one.mend] for one in found.findings if one.mend is not None]
    mended = [Table((_WHAT, _MEND), mends)] if mends else []
    return Page([Words([version]), looked, *mended], Table((_WORKS, _WHAT, _HOW, _MEND), rows))
