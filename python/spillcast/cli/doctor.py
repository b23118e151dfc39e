"""``spillcast doctor``: what works here, and what mends the rest."""

import typer

from spillcast.cli.options import Csv, Json, Markdown


def add_to(application: typer.Typer) -> None:
    """Register the verb."""
    application.command("doctor")(doctor)


def doctor(json: Json = False, csv: Csv = False, markdown: Markdown = False) -> None:
    """Check what works on this machine, and how to fix the rest.

    It checks capture sources, emulation of storage, control groups and installed packages, and
    changes nothing.

    Example: spillcast doctor
    """
    from spillcast.cli.output import show
    from spillcast.document import written
    from spillcast.lab.doctor import diagnose
    from spillcast.report.machine import doctor_page

    diagnosis = diagnose()
    show(
        lambda: written(diagnosis),
        lambda: doctor_page(diagnosis),
        json=json,
        csv=csv,
        markdown=markdown,
    )
