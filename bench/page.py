# SPDX-License-Identifier: MIT
"""HTML elements for the report, which are valid XML, too, and the style of its page. The
page needs no other file and no script."""
from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence

VOID = {"img", "meta"}


class Markup(str):
    """Text that already is markup, and is not escaped again."""


def element(name: str, /, *inside: str, **attributes: str) -> Markup:
    """An element. Its content is escaped unless it is markup. In names of attributes, a
    trailing underscore is dropped and other underscores become hyphens."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items() if value)
    if name in VOID:
        return Markup(f"<{name}{said}/>")
    return Markup(f"<{name}{said}>{''.join(map(_escaped, inside))}</{name}>")


def _escaped(text: str) -> str:
    return text if isinstance(text, Markup) else html.escape(text, quote=False)


def join(parts: Iterable[str]) -> Markup:
    return Markup("\n".join(map(_escaped, parts)))


def grid(caption: str, head: Sequence[str], lines: Iterable[Sequence[str]],
         class_: str = "", words: int = 1) -> Markup:
    """A table with a line of heads. The first columns (their number is given) have words,
    the others figures. It scrolls if it is wider than the page."""
    def cells(name: str, texts: Sequence[str]) -> list[Markup]:
        return [element("th" if name == "th" or not number else "td", text,
                        class_="" if number < words else "figure",
                        scope="col" if name == "th" else
                        "row" if not number else "")
                for number, text in enumerate(texts)]

    parts = [element("caption", caption)] if caption else []
    parts.append(element("thead", element("tr", *cells("th", head))))
    body = [element("tr", *cells("td", line)) for line in lines]
    parts.append(element("tbody", *(body or [element("tr", element(
        "td", "nothing was measured", colspan=str(len(head))))])))
    return element("div", element("table", *parts, class_=class_),
                   class_="wide")


def paragraph(sentences: Iterable[str], class_: str = "") -> Markup:
    text = " ".join(sentence for sentence in sentences if sentence)
    return element("p", text, class_=class_) if text else Markup("")


def image(svg: bytes, alt: str) -> Markup:
    """A drawing, in the page itself."""
    return element("img", alt=alt, src="data:image/svg+xml;base64,"
                   + base64.b64encode(svg).decode())


def details(summary: str, *inside: str) -> Markup:
    return element("details", element("summary", summary), *inside)


class Identifiers:
    """Ids of elements, each of which is used only once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def of(self, name: str) -> str:
        plain = "".join(c if c.isascii() and c.isalnum() else "-"
                        for c in name) or "x"
        given, number = plain, 1
        while given in self._given:
            number += 1
            given = f"{plain}-{number}"
        self._given.add(given)
        return given


# The page has a light and a dark style. Drawings are inverted in the dark style.
STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fcfcfa; --ink: #1d2126; --faint: #5c6570; --rule: #d9dce0;
  --shade: #f1f2ef; --accent: #0b6e4f; --bad: #b3261e; --doubt: #8a5a00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --ink: #e4e7ea; --faint: #9aa4ae; --rule: #343b42;
    --shade: #1e2327; --accent: #5fd3a5; --bad: #ff8a80; --doubt: #e9b35a;
  }
  img { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 64rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .5rem; padding-top: .8rem;
  border-top: 2px solid var(--rule); }
h3 { font-size: 1.08rem; margin: 2rem 0 .3rem; }
p { margin: .5rem 0; max-width: 46rem; }
p.idea, p.small, figcaption, caption { color: var(--faint); }
p.small, caption, figcaption, summary { font-size: .88rem; }
a { color: var(--accent); }
nav ul { list-style: none; margin: 1rem 0; padding: 0; display: flex;
  flex-wrap: wrap; gap: .2rem 1.2rem; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .88rem; line-height: 1.35;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { padding: .25rem .9rem .25rem 0; text-align: left;
  vertical-align: top; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; }
tbody th { font-weight: 400; }
th.figure, td.figure { text-align: right; white-space: nowrap; }
thead th { vertical-align: bottom; color: var(--faint); }
thead th.figure { white-space: normal; }
table.posted { background: var(--shade); }
table.posted th, table.posted td { padding-left: .7rem; }
table.posted caption { padding: .4rem .7rem; background: var(--shade); }
tr.group th { padding-top: 1rem; font-weight: 600; }
.met { color: var(--accent); font-weight: 600; }
.missed, .disproved { color: var(--bad); font-weight: 600; }
.doubt { color: var(--doubt); }
.range { color: var(--faint); font-size: .85em; }
figure { margin: 1rem 0; }
img { display: block; width: 100%; height: auto; max-width: 44rem;
  min-width: 20rem; }
figure .wide { margin: 0; }
.pair { display: grid; gap: 0 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
details { margin: .6rem 0; }
summary { cursor: pointer; color: var(--accent); }
@media print { body { max-width: none; } h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; } }
"""


def page(title: str, *inside: str) -> str:
    """The whole file. Its security policy forbids the browser to load anything."""
    head = element(
        "head", element("meta", charset="utf-8"),
        element("meta", name="viewport",
                content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy",
                content="default-src 'none'; img-src data:; "
                "style-src 'unsafe-inline'"),
        element("title", title), element("style", Markup(STYLE)))
    return (f"<!DOCTYPE html>\n"
            f"{element('html', head, element('body', join(inside)), lang='en')}"
            "\n")
