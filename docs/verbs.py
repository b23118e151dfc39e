"""A directive for Sphinx, ``verb``: what a verb of the command line takes, from its own help."""

from docutils import nodes
from docutils.parsers.rst import Directive

from spillcast.cli.usage import Command, Parameter, tree


class Verb(Directive):
    """``{verb} forecast``: the usage, help, arguments and options of it or of its commands."""

    required_arguments = 1

    def run(self):
        """The nodes for all commands of the verb."""
        root = tree()
        found = [command for command in root.commands if command.name == self.arguments[0]]
        if not found:
            raise self.error(f"spillcast has no verb {self.arguments[0]}")
        leaves = found[0].leaves()
        if len(leaves) == 1:
            return shown(leaves[0])
        return [section(leaf) for leaf in leaves]


class Verbs(Directive):
    """``{verbs}``: every verb and what it does, in a line."""

    def run(self):
        """A definition list, each verb with a link to its page."""
        entries = []
        for command in sorted(tree().commands, key=lambda c: c.name):
            text = nodes.literal(text=f"spillcast {command.name}")
            entries.append(described([text], command.summary + "."))
        return [nodes.definition_list("", *entries)]


def section(command: Command) -> nodes.Node:
    """One command of several, under a heading."""
    name = " ".join(command.path[1:])
    return nodes.section("", nodes.title(text=name), *shown(command), ids=[nodes.make_id(name)])


def shown(command: Command) -> list[nodes.Node]:
    """One command: how it is called, what it does, what it takes."""
    usage = nodes.literal_block(text=command.usage, language="text")
    paragraphs = [text for text in command.help.split("\n\n") if not text.startswith("Example:")]
    found: list[nodes.Node] = [usage]
    found += [nodes.paragraph(text=text.replace("\n", " ")) for text in paragraphs]
    # Every command has --help, which the page of all verbs says.
    parameters = [p for p in (*command.arguments, *command.options) if p.names != ("--help",)]
    listed = [entry(parameter) for parameter in parameters]
    return [*found, nodes.definition_list("", *listed)]


def entry(parameter: Parameter) -> nodes.Node:
    """An argument or option."""
    names = ", ".join(parameter.names)
    value = f" {parameter.metavar}" if parameter.is_option and parameter.metavar else ""
    choices = f" {'|'.join(parameter.choices)}" if not parameter.is_option else ""
    term = [nodes.literal(text=names + value + choices)]
    default = f" Default: {parameter.default}." if parameter.default else ""
    return described(term, f"{parameter.help}{default}")


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
