"""HTML that is safe from injection: text is escaped when it enters an element, and only elements are inserted unchanged."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias


class Markup(str):
    """HTML made by `element`. All other text is escaped."""

    __slots__ = ()


VOID = {"br", "img", "input", "meta"}  # elements without an end tag

Child: TypeAlias = "str | Iterable[Child] | None"
"""Text, elements, nothing, or any nesting of them."""


def element(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """`<name …>children</name>`. class_ is class, data_x is data-x. True: an attribute without value; False, None: no attribute."""
    words = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(attribute)
        elif value is not None and value is not False:
            words.append(f'{attribute}="{html.escape(str(value))}"')
    head = f"<{' '.join(words)}>"
    return Markup(head if name in VOID else f"{head}{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """All children in a row, escaped unless they are markup."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(html.escape(child))
        elif child is not None:
            parts.append(join(*child))
    return Markup("".join(parts))


def table(
    head: Iterable[Child], rows: Iterable[Iterable[Child]], *, caption: Child = None, class_: str | None = None
) -> Markup:
    """A table that scrolls within its box if the window is narrow; the keyboard can scroll it too."""
    body = [element("tr", [element("td", cell) for cell in row]) for row in rows]
    whole = element(
        "table",
        element("caption", caption) if caption else None,
        element("thead", element("tr", [element("th", cell, scope="col") for cell in head])),
        element("tbody", body),
        class_=class_,
    )
    return element(
        "div",
        whole,
        class_="wide",
        tabindex="0",
        role="group",
        aria_label=caption if isinstance(caption, str) else None,
    )
