"""The completion script for bash."""

from spillcast.cli.tree import Command, Parameter

_SCRIPT = """\
# bash completion for spillcast; kept by:
#   spillcast completion bash > ~/.local/share/bash-completion/completions/spillcast
_spillcast() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command=spillcast words="" at
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        # What follows -- belongs to another program.
        [[ ${{COMP_WORDS[at]}} == -- ]] && return
        case "$command ${{COMP_WORDS[at]}}" in
            {commands}) command="$command ${{COMP_WORDS[at]}}" ;;
        esac
    done
    case "$command $before" in
{values}
    esac
    if [[ -z $words ]]; then
        case "$command" in
{words}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _spillcast spillcast
"""


def bash_script(root: Command) -> str:
    """Verbs, options and choices as words; files where there are none."""
    every = _every(root)
    values, words = [], []
    for command in every:
        path = " ".join(command.path)
        files = [f'"{path} {name}"' for o in command.options if _takes_any(o) for name in o.names]
        values += [f"        {'|'.join(files)}) return ;;"] if files else []
        values += [
            f'        "{path} {name}") words="{" ".join(option.choices)}" ;;'
            for option in command.options
            for name in option.names
            if option.choices
        ]
        options = " ".join(name for option in command.options for name in option.names)
        # Of a command only what is begun with a dash is an option; all else may be a file.
        plain = [c.name for c in command.commands]
        plain += [choice for a in command.arguments for choice in a.choices]
        lines = [f'if [[ $word == -* ]]; then words="{options}"; fi']
        if plain:
            lines = [f'words="{" ".join(plain)}"', lines[0]]
        words.append(f'            "{path}") {"; ".join(lines)} ;;')
    paths = "|".join(f'"{" ".join(command.path)}"' for command in every[1:])
    return _SCRIPT.format(commands=paths, values="\n".join(values), words="\n".join(words))


def _every(command: Command) -> list[Command]:
    return [command, *(inner for child in command.commands for inner in _every(child))]


def _takes_any(option: Parameter) -> bool:
    return option.metavar is not None and not option.choices
