"""How every chart is drawn: altair to SVG without a browser, in one look."""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from spillcast.errors import InputError

#: What a light page shows. On a page of ours each is a custom property of the same name.
PALETTE = {
    "text": "#1b2430",
    "muted": "#55616f",
    "grid": "#e4e8ed",
    "domain": "#98a3b0",
    "surface": "#ffffff",
    "cpu": "#c5ccd5",
    "read": "#1d5a8e",
    "write": "#e08b3e",
    "other-io": "#7ba182",
    "waits": "#808c9b",
    "now": "#b3bcc7",
    "there": "#1d5a8f",
    "saved": "#2e7d5a",
    "lost": "#b3422e",
    "series-1": "#1d5a90",
    "series-2": "#d97f2f",
    "series-3": "#2e7d5b",
    "series-4": "#8a4a85",
    "band": "#dfeee3",
}
FONT = "sans-serif"


def need_report_extra(feature: str) -> None:
    """InputError where the packages that ``what`` is made with are not installed."""
    if any(find_spec(name) is None for name in ("altair", "jinja2", "vl_convert")):
        hint = "install them: pip install 'spillcast[report]'"
        raise InputError(f"{feature} needs altair, jinja2 and vl-convert", hint)


def colour(name: str) -> str:
    """The colour of this name."""
    return PALETTE[name]


def chart_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """An altair chart of rows that it holds itself.

    Say of each channel what it is, ``alt.X2("to:Q")``: to find it by a string takes altair 2 ms.
    """
    import altair as alt

    return alt.Chart({"values": list(rows)})


def svg(chart: Any, font_px: int = 13) -> str:
    """An altair chart as SVG; text of ``font_px``, background none."""
    import vl_convert

    # Checked against the schema of Vega-Lite it would take as long again; it is of our making.
    specification = chart.to_dict(validate=False)
    specification["config"] = _config(font_px)
    return str(vl_convert.vegalite_to_svg(specification))


def for_page(drawn: str, prefix: str) -> str:
    """An SVG to be set into a page: colours follow the page, names are its own, no size."""
    for name, value in PALETTE.items():
        drawn = drawn.replace(f'"{value}"', f'"var(--{name})"')
    drawn = re.sub(r' (?:role|aria-[a-z]+|pointer-events)="[^"]*"', "", drawn)
    # Rectangles side by side have no seams where their edges are sharp; see style.css.
    drawn = re.sub(r' class="(?!mark-rect)[^"]*"', "", drawn)
    drawn = re.sub(r' class="mark-rect[^"]*"', ' class="sharp"', drawn)
    drawn = drawn.replace(' xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1"', "")
    drawn = re.sub(r'\bid="', f'id="{prefix}-', drawn).replace("url(#", f"url(#{prefix}-")
    # As wide as its place, but never larger than it was drawn.
    size = re.compile(r'(<svg\b[^>]*?) width="([\d.]+)" height="[\d.]+"')
    return size.sub(r'\1 style="max-width: \2px"', drawn, count=1)


def standalone(drawn: str) -> str:
    """An SVG to be looked at by itself: on a white ground."""
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', drawn)
    assert size is not None, "an SVG has a size"
    ground = f'<rect width="{size[1]}" height="{size[2]}" fill="{PALETTE["surface"]}"/>'
    at = drawn.index(">", drawn.index("<svg")) + 1
    return f"{drawn[:at]}{ground}{drawn[at:]}\n"


def _config(font_px: int) -> dict[str, Any]:
    text = {"labelFont": FONT, "titleFont": FONT, "labelFontSize": font_px}
    text |= {"titleFontSize": font_px, "titleFontWeight": "normal"}
    colours = {"labelColor": PALETTE["text"], "titleColor": PALETTE["muted"]}
    return {
        "aria": False,
        "background": None,
        "padding": {"left": 2, "right": 6, "top": 6, "bottom": 2},
        "view": {"stroke": None},
        "font": FONT,
        "axis": {
            **text,
            **colours,
            "labelColor": PALETTE["muted"],
            "domainColor": PALETTE["domain"],
            "tickColor": PALETTE["domain"],
            "gridColor": PALETTE["grid"],
            "tickSize": 4,
            "labelPadding": 4,
            "titlePadding": 8,
            "labelOverlap": "greedy",
            "labelFlush": False,
        },
        "legend": {
            **text,
            **colours,
            "orient": "top",
            "title": None,
            "symbolType": "square",
            "symbolStrokeWidth": 1.5,
            "symbolSize": 110,
            "columnPadding": 22,
            "rowPadding": 4,
            "offset": 10,
        },
        "title": {
            "anchor": "start",
            "color": PALETTE["text"],
            "font": FONT,
            "fontSize": font_px + 1,
            "fontWeight": "normal",
        },
        "text": {"font": FONT, "fontSize": font_px, "color": PALETTE["text"]},
    }
