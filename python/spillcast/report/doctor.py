"""What works on this machine, as a page."""

from spillcast.lab.doctor import Diagnosis
from spillcast.report.page import Drawn, Page, Words
from spillcast.report.table import Column, Table

_COLUMNS = (Column("works", "works"), Column("what", "what"), Column("how", "detail"))
_FIX = Column("fixes", "mend")


def doctor_page(diagnosis: Diagnosis) -> Page:
    """What was looked at, then a command for each thing that does not work and can be mended."""
    commit = f" ({diagnosis.commit})" if diagnosis.commit else ""
    version = (
        f"spillcast {diagnosis.spillcast}{commit}, Python {diagnosis.python}, "
        f"Linux {diagnosis.kernel}"
    )
    rows = [
        ["yes" if finding.works else "no", finding.name, finding.detail, finding.mend]
        for finding in diagnosis.findings
    ]
    looked = Table(_COLUMNS, [row[:3] for row in rows])
    mends = [
        f"{finding.name}: {finding.mend}"
        for finding in diagnosis.findings
        if finding.mend is not None
    ]
    # A command is copied, so it keeps its line however wide that is.
    mended = [Drawn(lambda _: "\n".join(["fixes", *mends]))] if mends else []
    return Page([Words([version]), looked, *mended], Table((*_COLUMNS, _FIX), rows))
