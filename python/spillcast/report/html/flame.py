"""The flame graph of a run: HTML without a script, callers above the functions that they call."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from spillcast.profile.functions import UNNAMED, by_function, cpu_words, drawn_frames, flame
from spillcast.recording import Recording
from spillcast.recording.stacks import has_stacks, stacks_of
from spillcast.report.html.charts import Chart, Markup, legend_html
from spillcast.report.html.page import Document, Figure, Section, sentence, table_of
from spillcast.units import format_duration

#: Narrower frames are not drawn; a page has some 1,000 px.
_SHARE_MIN = 0.004
_ROWS_MAX, _ROW_PX, _GAP_PX = 60, 18, 1
#: Frames that are too narrow for any letter.
_NAMED_MIN = 0.02
_FUNCTIONS_MAX = 40
#: Modules with a colour of their own; the others share one.
_COLOURS = 4
#: Letters of a name that fit a frame as wide as a page.
_NAME_MAX = 160
_NAMESPACES = re.compile(r"^(?:[a-z_]\w*::)+(?=[A-Z])")


def functions_of(recording: Recording) -> Document | None:
    """What a run has of its functions; None where they were not sampled."""
    if not has_stacks(recording):
        return None
    stacks, result = stacks_of(recording), by_function(recording)
    root = flame(stacks)
    return {
        "samples": stacks.samples,
        "drawn_s": root.samples / stacks.samples_per_s,
        "words": [cpu_words(recording, stacks), *result.warnings],
        "rows": [
            {key: row[key] for key in ("function", "module", "total_us", "share")}
            | {"with_callees_share": row["with_callees_share"]}
            for row in result.rows[:_FUNCTIONS_MAX]
        ],
        "frames": drawn_frames(root, share_min=_SHARE_MIN, rows_max=_ROWS_MAX),
    }


def functions(run: Document, of: str) -> Section:
    """The section of a run that has functions."""
    about: Mapping[str, Any] = run["functions"]
    keys = "function module total_us:self share with_callees_share:with_callees"
    figure = Figure(
        f"Functions by CPU time, of {format_duration(about['drawn_s'])}",
        "A function is as wide as its share of the samples, and lies below its caller. The pointer "
        "shows its full name and time.",
        _graph(about["frames"], about["drawn_s"]),
        table_of(about["rows"], keys),
    )
    return Section(f"Functions on CPU{of}", list(map(sentence, about["words"])), [figure])


def _graph(frames: Sequence[Mapping[str, Any]], drawn_s: float) -> Chart:
    rows = 1 + max(frame["depth"] for frame in frames)
    shares = Counter[str]()
    for frame in frames:
        shares[frame["module"]] += frame["share"]
    del shares[""]
    modules = [module for module, _ in shares.most_common(_COLOURS)]
    colours = {module: f"series-{at}" for at, module in enumerate(modules, 1)}
    cells = "".join(_frame(frame, drawn_s, colours) for frame in frames)
    entries = [(module, colour, "square") for module, colour in colours.items()]
    entries += [("others", "domain", "square")] if len(shares) > len(modules) else []
    html = (
        f'{legend_html(entries)}<div class="flame" style="height:{rows * _ROW_PX}px">{cells}</div>'
    )
    top = sorted(frames, key=lambda frame: (-frame["share"], frame["depth"]))[:5]
    label = "; ".join(f"{frame['function']} {frame['share']:.0%}" for frame in top)
    return Chart(Markup(html), f"{len(frames)} frames, the widest: {label}")


def _frame(frame: Mapping[str, Any], drawn_s: float, colours: Mapping[str, str]) -> str:
    name, share = str(frame["function"]), frame["share"]
    title = f"{name}: {share:.1%}, {format_duration(share * drawn_s)}"
    colour = colours.get(frame["module"], "domain")
    style = (
        f"left:{100 * frame['start']:.2f}%;width:{100 * share:.2f}%;"
        f"top:{frame['depth'] * _ROW_PX}px;--of:var(--{colour})"
    )
    shown = UNNAMED if name == f"[{frame['module']}]" else _short(name)[:_NAME_MAX]
    text = escape(shown) if share >= _NAMED_MIN else ""
    return f'<i style="{style}" title="{escape(title)}">{text}</i>'


def _short(name: str) -> str:
    """A name without namespaces and the arguments of templates, which stand in its title."""
    name = _NAMESPACES.sub("", name)
    depth, letters = 0, []
    for at, letter in enumerate(name):
        if letter == "<" and at and (name[at - 1].isalnum() or name[at - 1] == "_"):
            depth += 1
        elif letter == ">" and depth:
            depth -= 1
        elif not depth:
            letters.append(letter)
    return name if depth else "".join(letters)
