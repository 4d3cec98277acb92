"""Text of patterns, made safe to stand in the orchestrator's context: on one line, with nothing in it that a reader could
take for a line or a mark of the context's own.

The lines of the context are ours alone, as no text of a pattern has a line break. Beside that, whatever reads like one of
its marks is changed: the brackets around what could be the frame's begin or end, and the colon of what could be a label.
What something reads like is said by its skeleton: its letters, with compatibility forms, look-alikes from other scripts
and digits in their place resolved, and without what nobody sees.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from opx.hygiene.invisible import removed

MAX_CHARACTERS = 8000
"""Of a text that are looked at; a context has room for less."""

_LOOK_ALIKES = str.maketrans(
    {
        **dict(zip("авгеєёикмнопрстухяѕіїјԁԛԝһӏ", "abreeenkmhonpctyxrsiijdqwhl", strict=True)),
        **dict(zip("αβδεηικνοπρστυχω", "abdenikonnpotuxw"[:7] + "nonpotuxw", strict=True)),
        **dict(zip("013457@$€|ı", "oieastaseli", strict=True)),
    }
)
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_CODE = re.compile(r"[@?.=*$/\\'\"{}<>|&;]")
_ALONE = frozenset({"end", "theend", "endof", "context", "kontext"})
_CONTEXT = re.compile("context|kontext")
_ENDS = re.compile("end|fin|stop|close|begin|start|orchestrator|historical")
_NEAR = 100
"""Characters that are looked at beside a bracket that has no other half."""

_COLONS = ":：∶꞉ː︓﹕"
_COLON = re.compile(f"[{_COLONS}]")
_LABEL = re.compile(r"(?:problem|solution|whentotry|recommendation|successes|success)\Z")
_LABEL_CHARACTERS = 60
_PIECES = dict.fromkeys("⎡⎢⎣", "(") | dict.fromkeys("⎤⎥⎦", ")")
"""Of large brackets."""


def framed_line(text: str) -> str:
    """The text on one line, that can't be taken for anything of the frame."""
    looked_at = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    line = " ".join(_seen(looked_at).split())
    return _without_labels(_without_marks(line))


def skeleton(text: str) -> str:
    """What a text reads like: small Latin letters."""
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    folded = plain.casefold().translate(_LOOK_ALIKES)
    return _NOT_LETTERS.sub("", folded if folded.isascii() else "".join(_letters(folded)))


def _letters(text: str) -> Iterator[str]:
    return (character for character in text if character.isascii())


def _seen(text: str) -> str:
    """Without what nobody sees, and with brackets of other kinds as parentheses."""
    return "".join(map(_shown, removed(text)[0]))


def _shown(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() or character.isspace() else " "
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    if category in ("Ps", "Pe"):
        return "(" if category == "Ps" else ")"
    if category[0] == "C" or unicodedata.name(character, "").endswith((" FILLER", "GRAPHEME JOINER")):
        return ""
    return _PIECES.get(character, character)


def _without_marks(line: str) -> str:
    """With parentheses for square brackets around what could be a mark."""
    characters = list(line)
    for begin, end in _pairs(line):
        low = begin + 1 if begin is not None else max(0, (end or 0) - _NEAR)
        high = end if end is not None else low + _NEAR
        if _is_mark(line[low:high]):
            if begin is not None:
                characters[begin] = "("
            if end is not None:
                characters[end] = ")"
    return "".join(characters)


def _pairs(line: str) -> Iterator[tuple[int | None, int | None]]:
    """Where square brackets open and close; None for the half that is missing."""
    waiting: list[int] = []
    for at, character in enumerate(line):
        if character == "[":
            waiting.append(at)
        elif character == "]":
            yield (waiting.pop() if waiting else None), at
    yield from ((at, None) for at in waiting)


def _is_mark(content: str) -> bool:
    """Whether what is in brackets could be the frame's begin or end. What isn't plain ASCII could be anything."""
    if not content.isascii():
        return True
    letters = skeleton(content)
    if letters in _ALONE:
        return True
    return bool(_CONTEXT.search(letters) and (_ENDS.search(letters) or not _CODE.search(content)))


def _without_labels(line: str) -> str:
    """With a dash for the colon of what could be a label."""

    def instead(match: re.Match[str]) -> str:
        before = line[max(0, match.start() - _LABEL_CHARACTERS) : match.start()]
        return " -" if _LABEL.search(skeleton(before)) else match[0]

    return _COLON.sub(instead, line)
