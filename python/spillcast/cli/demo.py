"""``spillcast demo``: record, probe, forecast and check on a real engine."""

from spillcast.cli.engine_options import DEFAULT, Engine
from spillcast.cli.options import Work
from spillcast.cli.usage import Answer


def demo(engine: Engine = DEFAULT, work: Work = None) -> Answer:
    """Run the whole loop on an engine, and compare.

    A query spills to slow temp storage and is recorded; fast storage is probed; the forecast is
    made; then the query is run there. Nothing is left behind.
    """
    from spillcast.cli.progress import TerminalStage
    from spillcast.lab.case import document
    from spillcast.lab.demo import STEPS, run_demo
    from spillcast.report.verify import demo_page

    with TerminalStage(STEPS) as stage:
        result = run_demo(stage, work, engine=engine)
    return Answer(lambda: document([result.case]), lambda: demo_page(result))
