"""Pages in a real browser: drawn, without errors or requests, and accessible."""

import pytest

NAMES = ("demo", "oracle", "sweeps", "part")
#: Both widths, both schemes.
PLACES = ((1280, "light"), (400, "dark"), (400, "light"))
#: Charts of the demo without forecasts, which may be refused on a busy machine.
CHARTS = {"demo": 4, "oracle": 6, "sweeps": 5, "part": 2}
#: For each chart, whether any of its shapes or bars is drawn.
DRAWN = """
[...document.querySelectorAll("figure .chart")].map(chart =>
    [...chart.querySelectorAll(".bar, .interval, .area path, .flame i")].some(shape => {
        const box = shape.getBoundingClientRect();
        return box.width > 0 && box.height > 0;
    }))
"""
#: Visible texts of charts.
TEXTS = """
const texts = chart => [...chart.querySelectorAll("span, p")].filter(span =>
    span.textContent.trim() && !span.querySelector("span") &&
    getComputedStyle(span).visibility !== "hidden");
"""
#: Chart text that is too small to read on the screen, in px.
SMALL = f"""(() => {{ {TEXTS}
return texts(document).filter(text => text.closest(".chart") &&
    parseFloat(getComputedStyle(text).fontSize) < 12).length }})()"""
#: How far chart text exceeds the window, in px.
BEYOND = f"""(() => {{ {TEXTS}
return Math.max(0, ...texts(document).map(text => {{
    const box = text.getBoundingClientRect();
    return box.width > 1 ? Math.max(box.right - innerWidth, -box.left) : 0;
}})) }})()"""

#: Overlapping texts of a chart.
CROSSED = f"""(() => {{ {TEXTS}
return [...document.querySelectorAll("figure .chart")].flatMap(chart => {{
    const inner = (text) => {{
        const box = text.getBoundingClientRect();
        return {{l: box.left + 2, r: box.right - 2, t: box.top + 3, b: box.bottom - 3}};
    }};
    const meet = (a, b) => a.l < b.r && b.l < a.r && a.t < b.b && b.t < a.b;
    const pairs = [];
    texts(chart).forEach((text, at, all) => all.slice(at + 1).forEach(other => {{
        if (meet(inner(text), inner(other))) pairs.push([text.textContent, other.textContent]);
    }}));
    return pairs;
}}) }})()"""

#: Table cells that exceed the window.
CUT = """
[...document.querySelectorAll("td")]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1)
    .map(one => one.textContent)
"""


#: Names in a page's first chart, and in the first column of the table below it.
NAMED = """
["figure .bars .name", "section table td:first-child"].map(cells => {
    const section = document.querySelector("figure .bars").closest("section");
    return [...section.querySelectorAll(cells)].map(cell => cell.textContent);
})
"""


@pytest.fixture
def opened(browser, pages):
    """Opens a page; its errors and requests are in ``errors`` and ``requests``."""
    contexts = []

    def go(name, width, scheme, **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.errors, page.requests = [], []
        page.on("console", lambda message: page.errors.append(message.text))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(f"file://{pages[name]}")
        return page

    yield go
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_drawn_without_errors_or_requests(opened, pages, name, width, scheme):
    page = opened(name, width, scheme)
    drawn = page.evaluate(DRAWN)
    assert len(drawn) >= CHARTS[name]
    assert all(drawn)
    assert page.evaluate(SMALL) == 0
    assert page.evaluate(BEYOND) <= 0
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.errors == []
    assert page.requests == [f"file://{pages[name]}"]
    assert pages[name].stat().st_size < 3_000_000


@pytest.mark.parametrize(("width", "scheme"), PLACES[:2])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_serious(opened, name, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = opened(name, width, scheme)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    result = Axe().run(page).response["violations"]
    grave = [(item["id"], item["nodes"][0]["html"]) for item in result
             if item["impact"] in ("serious", "critical")]  # fmt: skip
    assert grave == []


def test_the_colour_scheme_applies_to_charts_too(opened):
    """Chart text is light on dark, as its colours are those of the page."""
    colour = "getComputedStyle(document.querySelector('figure .chart .value')).color"
    light, dark = (opened("sweeps", 1280, scheme).evaluate(colour) for scheme in ("light", "dark"))
    assert sum(map(int, light[4:-1].split(", "))) < 300 < sum(map(int, dark[4:-1].split(", ")))


def test_raw_figures_are_copied_by_keyboard(opened):
    page = opened("sweeps", 1280, "light", permissions=["clipboard-read", "clipboard-write"])
    page.locator("details.raw summary").first.press("Enter")
    button = page.locator("button").first
    button.press("Enter")
    page.wait_for_function("document.getElementById('status').textContent === 'Copied'")
    assert '"schema": "spillcast.fleet/1"' in page.locator("#raw1").text_content()


def test_without_scripts_only_the_button_is_missing(opened):
    page = opened("oracle", 1280, "light", java_script_enabled=False)
    assert page.locator("button:visible").count() == 0
    assert page.locator("figure .chart:visible").count() >= CHARTS["oracle"]


def test_print_includes_charts_and_omits_collapsed_parts(opened):
    page = opened("demo", 400, "dark")
    page.emulate_media(media="print")
    assert all(page.evaluate(DRAWN))
    printed = "getComputedStyle(document.querySelector('.bar')).printColorAdjust"
    assert page.evaluate(printed) == "exact"
    assert page.locator("details:visible").count() == 0
    # Dark text on white paper, whatever the screen prefers.
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", NAMES)
def test_texts_of_a_chart_do_not_overlap(opened, name, width):
    assert opened(name, width, "light").evaluate(CROSSED) == []


@pytest.mark.parametrize("name", NAMES)
def test_on_a_phone_no_figure_exceeds_the_window(opened, name):
    page = opened(name, 390, "light")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate(CUT) == []


@pytest.mark.parametrize("name", ["demo", "oracle"])
def test_the_chart_of_targets_has_the_rows_of_its_table(opened, name):
    drawn, listed = opened(name, 1280, "light").evaluate(NAMED)
    assert drawn == listed
    assert len(drawn) >= 3


@pytest.mark.parametrize(("name", "media"), [("demo", "print"), ("idle", "screen")])
def test_no_heading_is_printed_without_content(opened, name, media):
    """Collapsed parts are not printed, nor is a heading with no other content."""
    page = opened(name, 1280, "light")
    page.emulate_media(media=media)
    alone = """[...document.querySelectorAll("section")].filter(section =>
        [...section.children].filter(child => child.getClientRects().length).length === 1).length"""
    assert page.evaluate(alone) == 0
