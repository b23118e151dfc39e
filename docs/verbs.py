"""A directive for Sphinx, ``verb``: what a verb of the command line takes, from its own help."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from typer.main import get_command

from spillcast.cli import application
from spillcast.cli.usage import about_of, is_option, term_of, usage_of


def verbs() -> dict[str, Any]:
    """The context of each verb, as click has it."""
    root = get_command(application([]))
    return {name: context(command, name, None) for name, command in root.commands.items()}


def context(command: Any, name: str, parent: Any) -> Any:
    """The context in which a command would run."""
    return command.make_context(
        name, [], parent=parent, resilient_parsing=True, ignore_unknown_options=True
    )


def leaves(verb: Any) -> Iterator[Any]:
    """The commands of a verb that can be run: itself, or all in it."""
    inner = getattr(verb.command, "commands", {})
    yield from (context(child, name, verb) for name, child in inner.items())
    if not inner:
        yield verb


class Verb(Directive):
    """``{verb} forecast``: the usage, help, arguments and options of it or of its commands."""

    required_arguments = 1

    def run(self):
        """The nodes for all commands of the verb."""
        verb = verbs().get(self.arguments[0])
        if verb is None:
            raise self.error(f"spillcast has no verb {self.arguments[0]}")
        if len(commands := list(leaves(verb))) == 1:
            return shown(commands[0])
        return [section(command) for command in commands]


class Verbs(Directive):
    """``{verbs}``: every verb and what it does, in a line."""

    def run(self):
        """A definition list, each verb with a link to its page."""
        entries = []
        for name, verb in sorted(verbs().items()):
            summary = verb.command.help.split("\n\n")[0].replace("\n", " ").rstrip(".:")
            entries.append(described([nodes.literal(text=f"spillcast {name}")], summary + "."))
        return [nodes.definition_list("", *entries)]


def path(command: Any) -> str:
    """A command as it is typed, without the program."""
    parent = command.parent
    return command.info_name if parent is None else f"{parent.info_name} {command.info_name}"


def usage(command: Any) -> str:
    """How a command is called."""
    return f"spillcast {path(command)} {usage_of(command)}"


def section(command: Any) -> nodes.Node:
    """One command of several, under a heading."""
    name = path(command)
    return nodes.section("", nodes.title(text=name), *shown(command), ids=[nodes.make_id(name)])


def shown(command: Any) -> list[nodes.Node]:
    """One command: how it is called, what it does, what it takes."""
    paragraphs = cleandoc(command.command.help).split("\n\n")
    texts = [text.replace("\n", " ") for text in paragraphs if not text.startswith("Example:")]
    # Every command has --help, which the page of all verbs says.
    parameters = [p for p in command.command.get_params(command) if "--help" not in p.opts]
    parameters.sort(key=is_option)
    return [
        nodes.literal_block(text=usage(command), language="text"),
        *(nodes.paragraph(text=text) for text in texts),
        nodes.definition_list("", *map(entry, parameters)),
    ]


def entry(parameter: Any) -> nodes.Node:
    """An argument or option."""
    return described([nodes.literal(text=term_of(parameter))], about_of(parameter))


def described(term: list[nodes.Node], text: str) -> nodes.Node:
    """An item of a definition list."""
    definition = nodes.definition("", nodes.paragraph(text=text))
    return nodes.definition_list_item("", nodes.term("", "", *term), definition)


def unlinked(app, document, _name):
    """In the man page, which has no other pages: links to them as plain words."""
    if app.builder.name == "man":
        for link in list(document.findall(nodes.reference)):
            if not link.get("refuri", "").startswith("http"):
                link.replace_self(link.children)


def setup(app):
    """Make the directives known to Sphinx."""
    app.connect("doctree-resolved", unlinked)
    app.add_directive("verb", Verb)
    app.add_directive("verbs", Verbs)
    return {"parallel_read_safe": True}
