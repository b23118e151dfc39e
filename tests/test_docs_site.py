"""The docs build without a warning: every linked page and file exists."""

import subprocess
import sys

import pytest

from oracle_files import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import verbs

COMMANDS = [command for verb in verbs.verbs().values() for command in verbs.leaves(verb)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site and the man page."""
    output = tmp_path_factory.mktemp("site")
    for builder in ("html", "man"):
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
        folders = ["-d", output / "doctrees", ROOT / "docs", output / builder]
        done = subprocess.run(
            [*command, "-b", builder, *folders], capture_output=True, text=True, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr
    return output


def test_every_page_is_in_the_site(built):
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    made = {path.relative_to(built / "html") for path in (built / "html").rglob("*.html")}
    missing = {page for page in pages if page.with_suffix(".html") not in made}
    assert {str(page) for page in missing} == {"accuracy/worst.md"}, "a part of accuracy.md"


@pytest.mark.parametrize("command", COMMANDS, ids=verbs.path)
def test_every_command_is_in_the_man_page_and_in_the_site(built, command):
    manual = (built / "man" / "spillcast.1").read_text().replace("\\-", "-").replace("\\&", "")
    # The page of storage also documents probe.
    verb = verbs.path(command).split()[0]
    name = "storage" if verb == "probe" else verb
    page = (built / "html" / "reference" / f"{name}.html").read_text()
    for text in (manual, page):
        assert verbs.usage(command).split(" [")[0] in text
        for parameter in command.command.get_params(command):
            # The page states once that every verb has --help.
            assert "--help" in parameter.opts or verbs.term_of(parameter).split(" ")[0] in text


def test_the_man_page_has_no_empty_links(built):
    assert "<>" not in (built / "man" / "spillcast.1").read_text()
