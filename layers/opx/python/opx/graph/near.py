"""What somebody may have meant who names a thing that there is none of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

NAMED = 3
CONSIDERED = 200
_ALIKE = 0.6

OfType = Callable[[str, str, int], Iterable[str]]
"""References that the reader may see: of a type, whose value begins so, so many at most."""


def near(of_type: OfType, key: str, node_type: str) -> tuple[str, ...]:
    """Up to three references of the same type that are written alike, the likest first. Asks for those that begin alike,
    and only if there are none, for any."""
    value = key.partition(":")[2]
    for beginning in dict.fromkeys((value[:2], value[:1], "")):
        by_value = {one.partition(":")[2]: one for one in of_type(node_type, beginning, CONSIDERED)}
        found = get_close_matches(value, by_value, n=NAMED, cutoff=_ALIKE)
        if found:
            return tuple(by_value[one] for one in found)
    return ()


def unknown(key: str, alike: tuple[str, ...]) -> str:
    """`no service:chekout; did you mean service:checkout?`"""
    if not alike:
        return f"no {key}"
    names = " or ".join(filter(None, (", ".join(alike[:-1]), alike[-1])))
    return f"no {key}; did you mean {names}?"
