"""The completion script for fish."""

from spillcast.cli.tree import Command, Parameter

_HEAD = """\
# fish completion for spillcast; kept by:
#   spillcast completion fish > ~/.config/fish/completions/spillcast.fish
"""


def fish_script(root: Command) -> str:
    """A line for each verb, option and choice; files are fish's own."""
    return _HEAD + "\n".join(_lines(root)) + "\n"


def _lines(command: Command) -> list[str]:
    lines = []
    names = [child.name for child in command.commands]
    here = _reached(command.path[1:])
    if names:
        absent = f"not __fish_seen_subcommand_from {' '.join(names)}"
        begin = f"complete -c spillcast -n {_quoted(' and '.join([*here, absent]))} -f"
        lines += [
            f"{begin} -a {child.name} -d {_quoted(child.summary)}" for child in command.commands
        ]
    begin = f"complete -c spillcast -n {_quoted(' and '.join(here) or 'true')}"
    lines += [f"{begin} {_option(option)}" for option in command.options]
    lines += [
        f"{begin} -f -a {_quoted(' '.join(argument.choices))}"
        for argument in command.arguments
        if argument.choices
    ]
    return [*lines, *(line for child in command.commands for line in _lines(child))]


def _reached(path: tuple[str, ...]) -> list[str]:
    return [f"__fish_seen_subcommand_from {name}" for name in path]


def _option(option: Parameter) -> str:
    names = [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
    if option.choices:
        value = [f"-x -a {_quoted(' '.join(option.choices))}"]
    else:
        value = [] if option.metavar is None else ["-r -F"]
    return " ".join([*names, *value, f"-d {_quoted(option.help)}"])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
