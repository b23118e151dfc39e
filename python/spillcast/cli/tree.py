"""The verbs with their arguments and options, as data: for the reference, the manual and tests."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """An argument, or an option with all its names."""

    names: tuple[str, ...]
    #: What stands for its value; None for a flag.
    metavar: str | None
    help: str
    #: The values it may have; none where it may have any.
    choices: tuple[str, ...] = ()
    repeatable: bool = False
    required: bool = False
    default: str | None = None

    @property
    def is_option(self) -> bool:
        """Whether it is named on the command line."""
        return self.names[0].startswith("-")


@dataclass(frozen=True)
class Command:
    """A verb, or a command of one; a group has commands and no parameters of its own."""

    path: tuple[str, ...]
    help: str
    parameters: tuple[Parameter, ...] = ()
    commands: "tuple[Command, ...]" = ()

    @property
    def name(self) -> str:
        """Its last word."""
        return self.path[-1]

    @property
    def usage(self) -> str:
        """How it is called."""
        words = [*self.path, *("COMMAND" for _ in self.commands[:1])]
        for parameter in self.arguments:
            word = parameter.names[0] + "..." * parameter.repeatable
            words.append(word if parameter.required else f"[{word}]")
        words += [f"{o.names[0]} {o.metavar}" for o in self.options if o.required]
        return " ".join([*words, "[OPTIONS]"])

    @property
    def summary(self) -> str:
        """Its help in one line."""
        return self.help.split("\n\n")[0].replace("\n", " ").rstrip(".:")

    @property
    def options(self) -> list[Parameter]:
        """Its options."""
        return [parameter for parameter in self.parameters if parameter.is_option]

    @property
    def arguments(self) -> list[Parameter]:
        """Its arguments, in order."""
        return [parameter for parameter in self.parameters if not parameter.is_option]

    def leaves(self) -> "list[Command]":
        """The commands that can be run: itself, or all in it."""
        inner = [leaf for command in self.commands for leaf in command.leaves()]
        return inner or [self]


def tree() -> Command:
    """All of ``spillcast``. Imports every verb's file."""
    from typer.main import get_command

    from spillcast.cli import application

    return _command(get_command(application([])), ("spillcast",), None)


def _command(command: Any, path: tuple[str, ...], parent: Any) -> Command:
    context = command.make_context(
        path[-1], [], parent=parent, resilient_parsing=True, ignore_unknown_options=True
    )
    inner = getattr(command, "commands", {})
    return Command(
        path,
        _text(command.help),
        tuple(_parameter(parameter) for parameter in command.get_params(context)),
        tuple(_command(child, (*path, name), context) for name, child in inner.items()),
    )


def _text(text: str | None) -> str:
    from inspect import cleandoc

    return cleandoc(text or "")


def _parameter(parameter: Any) -> Parameter:
    choices = tuple(getattr(parameter.type, "choices", ()))
    # Click keeps the names of --help in a set, whose order differs from run to run.
    flags = sorted(parameter.opts) if "--help" in parameter.opts else parameter.opts
    names = (*flags, *parameter.secondary_opts)
    flag = getattr(parameter, "is_flag", False)
    if parameter.param_type_name == "argument":
        names, several = (parameter.metavar or parameter.name.upper(),), parameter.nargs == -1
    else:
        several = parameter.multiple
    default = None if flag or several or callable(parameter.default) else parameter.default
    return Parameter(
        names,
        None if flag else parameter.metavar or "|".join(choices) or _kind(parameter.type.name),
        parameter.help or "",
        choices,
        several,
        parameter.required,
        None if default in (None, "") else str(default),
    )


def _kind(name: str) -> str:
    """What stands for a value of a type of click."""
    return {"str": "TEXT", "path": "PATH"}.get(name, "NUMBER")
