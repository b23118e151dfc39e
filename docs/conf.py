"""The docs site and the man page: how Sphinx builds them; `make docs` does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "spillcast"
author = "the spillcast authors"
extensions = ["myst_parser", "verbs"]
# worst.md is a part of accuracy.md.
exclude_patterns = ["_build", "accuracy/worst.md"]
nitpicky = True
# A console block holds what a program printed, which is no shell's language.
suppress_warnings = ["misc.highlighting_failure"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
# Formulas and tables of the pages hold dots and quotes as they are meant.
smartquotes = False

html_theme = "furo"
html_title = "spillcast"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]

man_pages = [("reference", "spillcast", "how long a query takes on other storage", author, 1)]
