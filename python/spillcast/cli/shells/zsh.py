"""The completion script for zsh."""

from spillcast.cli.tree import Command, Parameter

_HEAD = """\
#compdef spillcast
# zsh completion for spillcast; kept by, in a directory of $fpath:
#   spillcast completion zsh > _spillcast
"""
_GROUP = """\
{function}() {{
    local state
    local -a commands=(
{commands}
    )
    _arguments -C '1: :->command' '*:: :->rest'
    case $state in
        command) _describe command commands ;;
        rest)
            case $words[1] in
{cases}
            esac ;;
    esac
}}
"""
_LEAF = """\
{function}() {{
    _arguments -s \\
        {specs}
}}
"""
_END = """\
if [[ $funcstack[1] == _spillcast ]]; then
    _spillcast "$@"
else
    compdef _spillcast spillcast
fi
"""


def zsh_script(root: Command) -> str:
    """A function for each command."""
    return _HEAD + "\n".join(_functions(root)) + "\n" + _END


def _functions(command: Command) -> list[str]:
    if not command.commands:
        specs = [_option(option) for option in command.options]
        specs += [f"'*: :({' '.join(a.choices)})'" for a in command.arguments if a.choices]
        # A word that is none of these may be a file.
        specs += [] if any(a.choices for a in command.arguments) else ["'*: :_files'"]
        text = " \\\n        ".join(specs)
        return [_LEAF.format(function=_function(command), specs=text)]
    listed = [f"        {_quoted(f'{c.name}:{c.summary}')}" for c in command.commands]
    cases = [f"                {c.name}) {_function(c)} ;;" for c in command.commands]
    group = _GROUP.format(
        function=_function(command), commands="\n".join(listed), cases="\n".join(cases)
    )
    return [*(text for child in command.commands for text in _functions(child)), group]


def _function(command: Command) -> str:
    return "_" + "_".join(command.path)


def _option(option: Parameter) -> str:
    names = ",".join(option.names)
    several = "*" if option.repeatable else f"({' '.join(option.names)})"
    told = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    value = ""
    if option.choices:
        value = f":{option.metavar}:({' '.join(option.choices)})"
    elif option.metavar is not None:
        value = f":{option.metavar}:_files"
    braces = f"{{{names}}}" if len(option.names) > 1 else names
    tail = _quoted(f"[{told}]{value}".replace("\n", " "))
    return f"{_quoted(several)}{braces}{tail}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
