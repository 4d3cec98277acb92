"""Names and codes in a question: what a person copied rather than worded, and wants to find as it stands."""

from __future__ import annotations

import re

MAX_IDENTIFIERS = 32
_LONGEST = 200
_MOST_WORDS = 2_000

_BREAKS = re.compile(r"[\s\"'`()\[\]{}<>,;|=«»“”„‘’]+")
_ENDS = ".:!?…*"
_WHOLE = re.compile(
    r"\bHTTP(?:/[\d.]+)? [1-5](?:\d\d|xx)\b|\b[a-z][a-z0-9+.-]{0,20}://[^\s\"'<>()]+(?<![.,;:!?])", re.IGNORECASE
)

_LETTER = r"[^\W\d_]"
_WORD = r"[^\W_]+"
_FORMS = {
    "arn": r"arn:aws[\w-]*(?::[^:]*){3}:\S+",
    "path": r"(?:~|\.{1,2})?(?:/[\w.@+%*-]+)+/?|[A-Za-z]:\\\S+|\\\\\S+",
    "ip": r"\d{1,3}(?:\.\d{1,3}){3}(?:[/:]\d+)?|(?=\S*::|(?:\S*:){7})[0-9a-f:]{3,39}(?:/\d+)?",
    "version": r"[vV]?\d+(?:\.\d+)+(?:[-+.]?[a-z]+[\w.-]*)?|[vV]\d+",
    "hexadecimal": r"0x[0-9a-f]{2,}|(?=\S*\d)(?=\S*[a-f])[0-9a-f]{7,64}",
    "code": rf"[A-Z]{{1,12}}-?\d{{2,}}[A-Z0-9]*(?:[-.]\w+)*|[A-Z]{{2,}}(?:_[A-Z0-9]+)+|{_LETTER}+-\d{{2,}}(?:-\d+)*",
    "dotted": rf"(?=\S*{_LETTER}{{2}}){_WORD}(?:(?:\.|::){_LETTER}[\w-]+)+(?::\d+)*",
    "joined": rf"(?=\S*{_LETTER})_*{_WORD}(?:[_-]+{_WORD}(?:\.\d+)*)+_*|_+{_LETTER}\w+",
    "mixed case": r"_*[a-z][a-z0-9]*[A-Z]\w*|_*(?:[A-Z][a-z0-9]+){2,}[A-Z]*|[A-Z]{2,}[a-z]\w*|[A-Z]+[a-z]+[A-Z]\w*",
    "with digits": r"[A-Za-z]+\d\w*",
}
_IDENTIFIER = re.compile("|".join(f"(?:{form})" for form in _FORMS.values()))
_LOWER_CASE = re.compile("|".join(f"(?:{_FORMS[name]})" for name in ("arn", "ip", "hexadecimal")))


def identifiers(text: str) -> tuple[str, ...]:
    """The distinct identifiers in a text, in order, as they are written; `MAX_IDENTIFIERS` at most.

    Addresses, ARNs, paths, IPs, versions, error codes and numbers of issues (CVE-2024-3094, ORA-01555, 0x80070005,
    HTTP 503), names of several words (moduleControllerCreate, KubePodCrashLooping, hook.player.connected, kube-proxy,
    snake_case), names with digits (eth0). A hyphenated word of plain English counts as one too: it is searched as one.
    """
    found = dict.fromkeys(_WHOLE.findall(text)[:MAX_IDENTIFIERS])
    for piece in _BREAKS.split(_WHOLE.sub(" ", text), _MOST_WORDS)[:_MOST_WORDS]:
        if len(found) == MAX_IDENTIFIERS:
            break
        word = piece.rstrip(_ENDS).lstrip(_ENDS.replace(".", ""))
        if 2 <= len(word) <= _LONGEST and is_identifier(word):
            found[word] = None
    return tuple(found)


def is_identifier(word: str) -> bool:
    """Whether a word without blanks is a name or code."""
    if word.isalpha() and (word.islower() or word.istitle() or word.isupper()):
        return False
    return bool(_IDENTIFIER.fullmatch(word) or _LOWER_CASE.fullmatch(word.lower()))
