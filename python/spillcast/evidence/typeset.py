"""psql's formats for documents: a table or records in AsciiDoc, LaTeX or troff."""

import re

from spillcast.evidence.tables import as_lines

_ATTRIBUTES = re.compile(r'\[(?:options|cols|frame|grid)=".*\]')
_ASCIIDOC_RECORD = re.compile(r"\d\+\^\|Record (\d+)")
_ASCIIDOC_PAIR = re.compile(r"[<>^]?l\|(\w[\w ]*?) [<>^]?l\|(.*)", re.DOTALL)
_ASCIIDOC_CELL = re.compile(r"[<>^]?[a-z]?(?<!\\)\|")
_TYPESET = re.compile(r"\\begin\{(?:tabular|longtable)\}|\.TS$")
_TYPESET_RECORD = re.compile(
    r"\\multicolumn\{2\}\{.*\}\{\\textit\{Record (\d+)\}\}|\\fIRecord (\d+)\\fP"
)
_TYPESET_HEAD = re.compile(r"(?:\\small\\textbf\{)?\\(?:textit\{|fI)(.*?)(?:\}|\\fP)")
_RAGGED = re.compile(r"\\raggedright\{(.*)\} \\tabularnewline$")
#: Lines of LaTeX and of troff that are not cells.
_LAYOUT = re.compile(
    r"\\(?:begin|end|\w+rule|hline|end\w+head|endhead|end\w*foot|noindent)\b.*|\.[A-Z].*"
    r"|center.*;|[|clrs ]+\.|_|\(\d+ [^\W\d]+\)|"
)
_TYPESET_ESCAPE = re.compile(r"\\(?:(text[a-z]+|\\|\(rs)|([\W_]))(?:\{\})?")
_SYMBOLS = {
    "\\": "\n", "(rs": "\\", "textbackslash": "\\", "textgreater": ">", "textless": "<",
    "textbar": "|", "textasciitilde": "~", "textasciicircum": "^",
}  # fmt: skip


def asciidoc(lines: list[str]) -> list[str] | None:
    """psql's format "asciidoc": a plan, or records, without its marks of cells."""
    if sum(line.rstrip() == "|====" for line in lines) < 2:
        return None
    plain = []
    for line in lines:
        if line.rstrip() == "|====" or _ATTRIBUTES.fullmatch(line):
            continue
        if (record := _ASCIIDOC_RECORD.fullmatch(line)) is not None:
            plain.append(f"-[ RECORD {record[1]} ]-")
        elif (pair := _ASCIIDOC_PAIR.fullmatch(line)) is not None:
            plain.append(f"{pair[1]} | {pair[2]}".replace("\\|", "|"))
        else:
            plain.append(_ASCIIDOC_CELL.sub("", line).replace("\\|", "|"))
    return plain


def typeset(lines: list[str]) -> list[str] | None:
    """psql's formats "latex", "latex-longtable" and "troff-ms": the lines of a table or records."""
    begin = next((at for at, line in enumerate(lines) if _TYPESET.match(line)), None)
    if begin is None:
        return None
    records: list[str] = []
    names: list[str] = []
    rows: list[list[str]] = []
    for line in lines[begin:]:
        line = _RAGGED.sub(r"\1 \\\\", line.rstrip())
        if record := _TYPESET_RECORD.match(line):
            records.append(f"-[ RECORD {record[1] or record[2]} ]-")
        elif heads := _TYPESET_HEAD.findall(line):
            names = [_untypeset(head) for head in heads]
        elif not _LAYOUT.fullmatch(line):
            cells = [_untypeset(cell) for cell in re.split(" & |\t", line.removesuffix(" \\\\"))]
            if not records:
                rows.append(cells)
                continue
            name, value = cells if len(cells) == 2 else ("", line)
            bars = [name, *[""] * value.count("\n")]
            parts = zip(bars, value.split("\n"), strict=True)
            records += [f"{name:10} | {part}" for name, part in parts]
    return [*lines[:begin], *(records or as_lines(names, rows))]


def _untypeset(cell: str) -> str:
    """A cell without the escapes of LaTeX or troff."""
    return _TYPESET_ESCAPE.sub(
        lambda match: _SYMBOLS.get(match[1], match[1]) if match[1] else match[2], cell
    )
