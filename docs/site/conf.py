"""Sphinx's settings for the site, whose source is the root of the checkout (scripts/docs).

Pages keep their places in the checkout, so that a relative link is right on the site and in a plain
view of the repository.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import navigation  # noqa: E402  (found through the path above)

project = "superpipe"
author = "superpipe's authors"
project_copyright = "superpipe's authors, Apache-2.0"
root_doc = navigation.FRONT
extensions = ["myst_parser"]
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/**/*.md",
    "bench/peers/*.md",
    "bench/virtual_time/*.md",
    "examples/*.md",
    "examples/**/*.md",
    "third_party/uplot/*.md",
    "tools/simgpu/*.md",
]
exclude_patterns = ["build", ".*"]

# Anchors are those of GitHub's view, of all levels of headings.
myst_heading_anchors = 6
highlight_language = "text"

html_theme = "furo"
html_title = "superpipe"
# All is read from a folder: no excerpts in search results, which would need a server.
html_show_search_summary = False
html_copy_source = False
html_use_index = False
html_show_sphinx = False

REDIRECT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>superpipe</title>
<meta http-equiv="refresh" content="0; url={front}">
</head>
<body><a href="{front}">superpipe</a></body>
</html>
"""


def add_navigation(app, page: str, source: list[str]) -> None:
    source[0] += navigation.toctrees(page, sorted(app.env.found_docs))


def write_index(app, problem: Exception | None) -> None:
    if problem is None:
        index = Path(app.outdir) / "index.html"
        index.write_text(REDIRECT.format(front=f"{root_doc}.html"), encoding="utf-8")


def setup(app) -> None:
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_index)
