"""The parts of a page; whatever is put into one is escaped, unless it is a `Markup`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

STYLE = """
.sdbr{font:14px/1.45 system-ui,sans-serif;color:#1f2328}
.sdbr h1{font-size:22px}.sdbr h2{font-size:18px;margin-top:28px}.sdbr h3{font-size:15px}
.sdbr pre,.sdbr code,.sdbr td{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px}
.sdbr pre{background:#f6f8fa;padding:10px;overflow:auto}
.sdbr table{border-collapse:collapse}
.sdbr th,.sdbr td{text-align:left;vertical-align:top;padding:2px 8px}
.sdbr th,.sdbr td{border-bottom:1px solid #e4e7eb}
.sdbr th{position:sticky;top:0;background:#fff}
.sdbr tr.python td{background:#fff1e5}
.sdbr .number{text-align:right}
.sdbr .advice{background:#fff8c5;padding:8px 24px}
.sdbr input{width:100%;max-width:600px;padding:6px;margin:8px 0}
.sdbr .bar{display:flex;height:14px;max-width:600px;margin:4px 0}
.sdbr .native{background:#2f81b7}.sdbr .bar .python{background:#e8833a}
.sdbr svg{max-width:100%;height:auto}
"""

#: Hides the rows of all tables of ops that do not have every word of the search.
SCRIPT = """
function sdbrSearch(box){
  const words=box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  box.closest('.sdbr').querySelectorAll('table.ops tbody tr').forEach(row=>{
    const text=row.textContent.toLowerCase();
    row.hidden=!words.every(word=>text.includes(word));
  });
}
"""


class Markup(str):
    """A text that is HTML already."""

    __slots__ = ()


def escape(thing) -> Markup:
    """Any object as a text that means itself in HTML, also within quotes."""
    return thing if isinstance(thing, Markup) else Markup(html.escape(str(thing), quote=True))


def element(name: str, *contents, **attributes) -> Markup:
    """An element; ``class_`` stands for the attribute ``class``."""
    given = "".join(f' {key.rstrip("_")}="{escape(x)}"' for key, x in attributes.items())
    return Markup(f"<{name}{given}>{joined(contents)}</{name}>")


def joined(contents: Iterable) -> Markup:
    """One piece after the other."""
    return Markup("".join(map(escape, contents)))


def listed(items: Iterable) -> Markup:
    """A list with a dot before each item; nothing for none."""
    made = [element("li", item) for item in items]
    return element("ul", *made) if made else Markup("")


def table(
    heads: Sequence[str], rows: Iterable[Sequence], classes: Sequence[str] = (), of: str = ""
) -> Markup:
    """A table; numbers stand at the right. `classes` are those of the rows, `of` its own."""
    made = []
    for i, row in enumerate(rows):
        cells = "".join(
            f'<td class="number">{x}</td>'
            if isinstance(x, (int, float))
            else f"<td>{escape(x)}</td>"
            for x in row
        )
        kind = f' class="{escape(classes[i])}"' if classes and classes[i] else ""
        made.append(f"<tr{kind}>{cells}</tr>")
    head = joined(element("th", text) for text in heads)
    body = element("tbody", Markup("\n".join(made)))
    return element("table", element("thead", element("tr", head)), body, class_=of)


def search() -> Markup:
    """A field that looks through the ops."""
    return Markup(
        '<input type="search" placeholder="op, link, shape, line" oninput="sdbrSearch(this)">'
    )


def fragment(*contents) -> Markup:
    """What a notebook shows."""
    return joined([element("style", Markup(STYLE)), element("div", *contents, class_="sdbr")])


def page(title: str, *contents) -> str:
    """A whole file."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><script>{SCRIPT}</script></head>\n"
        f"<body>{fragment(*contents)}</body>\n</html>\n"
    )
