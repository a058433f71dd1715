#!/usr/bin/env python3
"""Checks that a built site opens from a folder: all that its pages need and link to lies there.

    docs/site/check_links.py FOLDER

A link has to lead to a file of the folder, and to an anchor that the file has. What a page loads
(scripts, styles, fonts, pictures) has to lie in the folder too. Links to other hosts are counted
and not followed. Exit code 1 if one is wrong.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Elements whose link a browser follows by itself, and what may link elsewhere.
LOADED = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "object": "data",
    "source": "src",
}
# A page's own address, which a browser does not load.
ONLY_NAMED = {"canonical", "prev", "next", "author", "license"}
IN_STYLE = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])([^'")\s]+)""")


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if values.get(LOADED.get(tag, ""), "") and values.get("rel") not in ONLY_NAMED:
            self.loads.append(values[LOADED[tag]])
        self.loads += IN_STYLE.findall(values.get("style", ""))

    handle_startendtag = handle_starttag


def is_elsewhere(link: str) -> bool:
    parts = urlsplit(link)
    return bool(parts.scheme or parts.netloc) and parts.scheme != "data"


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.pages = {
            file: Page(file.read_text(encoding="utf-8"))
            for file in sorted(self.folder.rglob("*.html"))
        }
        self.links = self.elsewhere = 0

    def wrong_with(self, file: Path, link: str) -> str | None:
        """What is wrong with a link of `file` to something in the folder; None if nothing is."""
        parts = urlsplit(link)
        if parts.scheme == "data":
            return None
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        if parts.path.startswith("/") or not target.is_relative_to(self.folder):
            return "leads out of the site"
        if not target.is_file():
            return "leads to no file" if not target.is_dir() else "leads to a folder"
        fragment = unquote(parts.fragment)
        # An empty one is the page's top.
        if fragment and target in self.pages and fragment not in self.pages[target].anchors:
            return "leads to no anchor"
        return None

    def problems(self) -> list[str]:
        found = []
        loads = [(file, load) for file, page in self.pages.items() for load in page.loads]
        for style in sorted(self.folder.rglob("*.css")):
            loads += [(style, load) for load in IN_STYLE.findall(style.read_text(encoding="utf-8"))]
        links = [(file, link) for file, page in self.pages.items() for link in page.links]
        for file, link in links:
            self.links += 1
            if is_elsewhere(link):
                self.elsewhere += 1
                continue
            if wrong := self.wrong_with(file, link):
                found.append(f"{file.relative_to(self.folder)}: {link} {wrong}")
        for file, load in loads:
            wrong = (
                "is loaded from elsewhere" if is_elsewhere(load) else self.wrong_with(file, load)
            )
            if wrong:
                found.append(f"{file.relative_to(self.folder)}: {load} {wrong}")
        return found


def main() -> int:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("check_links: name the folder of a built site", file=sys.stderr)
        return 2
    site = Site(Path(sys.argv[1]))
    problems = site.problems()
    for problem in problems:
        print(f"check_links: {problem}", file=sys.stderr)
    if not site.pages:
        print(f"check_links: {sys.argv[1]} has no pages", file=sys.stderr)
        return 1
    print(
        f"{len(site.pages)} pages, {site.links} links, "
        f"{site.elsewhere} of them to other hosts, which are not followed"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
