"""``spillcast engines``: what is known of each engine."""

from spillcast.cli.usage import Answer


def engines() -> Answer:
    """List engines: how their temp files are found, what is read of them, and how well it works.

    Other programs are recorded just as well; --temp names the directory of their temp files.

    Example: spillcast engines
    """
    from spillcast.report.engines import engines_document, engines_page

    return Answer(engines_document, engines_page)
