"""Plans as string literals in source code, and as office programs and authors format them."""

import json
import re


def typescript(document):
    """A test's fixture as prettier formats it."""
    text = json.dumps(document, indent=2).replace("\\", "\\\\").replace("'", "\\'")
    text = re.sub(r'"((?:[^"])*)"', r"'\1'", text)
    text = re.sub(r"'([A-Za-z]+)':", r"\1:", text)
    text = re.sub(r"(?<=[^,{\[])\n(?=\s*[\]}])", ",\n", text)
    return ["// What it was.", *f"export const slow: Document = {text} as const;".split("\n")]


def java(lines):
    """A string in a Java test, with a literal for each line."""
    parts = " +\n".join(f"      {json.dumps(line + chr(10))}" for line in lines)
    return ["class Plans {", *f"  String slow =\n{parts};".split("\n"), "}"]


def javascript(lines):
    """A JavaScript array of the lines, joined."""
    quoted = (line.replace("'", "\\'") for line in lines)
    return ["const slow = [", *(f"  '{line}'," for line in quoted), "].join('\\n');"]


def grouped(lines):
    """Separates the thousands of numbers, but not of decimals, by narrow blanks."""
    number = re.compile(r"(?<!\w)(?<!\d\.)\d{4,}")
    return [number.sub(lambda m: f"{int(m[0]):,}".replace(",", "\u202f"), line) for line in lines]


def decimal_commas(lines):
    """A German spreadsheet's numbers: points between thousands, commas before decimals."""
    swapped = str.maketrans(".,", ",.")
    number = re.compile(r"(?:(?<==)|(?<=\.\.)|(?<=Time: ))\d+\.(\d+)")
    return [
        number.sub(lambda m: f"{float(m[0]):,.{len(m[1])}f}".translate(swapped), line)
        for line in lines
    ]


def figures_below(lines):
    """Puts each node's name on a line, and its figures on two more."""
    node = re.compile(r"( *)(.*\S)  (\(cost=.*\)) (\(actual .*\))")
    return [
        part for line in lines for part in node.sub(r"\1\2\n\1   \3\n\1   \4", line).split("\n")
    ]


def broken(text, width):
    """Breaks the text into lines of at most ``width`` characters."""
    lines = text.split("\n")
    return "\n".join(
        line[at : at + width] for line in lines for at in range(0, len(line) or 1, width)
    )
