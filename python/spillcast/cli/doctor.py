"""``spillcast doctor``: check what works on this machine."""

from spillcast.cli.usage import Answer


def doctor() -> Answer:
    """Check what works on this machine, and how to fix the rest.

    It checks capture sources, emulation of storage, control groups and installed packages, and
    changes nothing.

    Example: spillcast doctor
    """
    from spillcast.document import written
    from spillcast.lab.doctor import diagnose
    from spillcast.report.machine import doctor_page

    diagnosis = diagnose()
    return Answer(lambda: written(diagnosis), lambda: doctor_page(diagnosis))
