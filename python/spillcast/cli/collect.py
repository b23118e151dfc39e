"""``spillcast collect``: a script that a DBA runs to collect the evidence."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperOption

from spillcast.cli.engine_options import EngineCommand
from spillcast.cli.usage import command_group
from spillcast.engines.registry import engines, feature_of


class _Collect(EngineCommand):
    """Prints the script that an engine returns, or writes it to a file."""

    shared = (
        TyperOption(
            param_decls=["--output", "-o"],
            metavar="<path>",
            help="File to write, such as collect.sql.",
        ),
    )

    def check(self, options: Mapping[str, Any]) -> None:
        """InputError for a file that cannot be written."""
        from spillcast.workspace import check_output_file

        if options["output"] is not None:
            check_output_file(Path(options["output"]))

    def print_result(self, script: str, options: Mapping[str, Any]) -> None:
        """Print the script, or write it to ``output``."""
        from spillcast.cli.output import emit
        from spillcast.workspace import whole_file

        output = options["output"]
        if output is not None:
            with whole_file(Path(output)) as partial:
                partial.write_text(script)
        if options["json"]:
            emit({"schema": "spillcast.collect/1", "script": script})
        elif output is None:
            print(script, end="")


collect = command_group("Print a script that collects the evidence.")
for _engine in engines("collect"):
    collect.command(_engine.name, cls=_Collect)(feature_of(_engine, "collect"))
