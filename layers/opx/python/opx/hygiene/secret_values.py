"""Judges values: random characters, passwords that a structure states, placeholders, references, identifiers."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from functools import cache
from pathlib import Path

MIN_LENGTH = 8
MIN_BITS = 2.5
"""Shannon entropy of a value's characters, in bits each. Eight different characters have 3."""
_MIN_STATED = 3
_MAX_STATED = 256
_MOST_WORDS = 6
_LONG_REST = 12

_OBVIOUS = re.compile(
    r"(?i)placeholder|redacted|masked|x{4}|\*{3}|\.{3}|…|1234567|abcdef|your[-_]|change.?me|^examples?$|\bexample\b.{0,4}$"
)
_OF_EXAMPLE = re.compile(r"EXAMPLE(?:KEY)?$|(?i:example)")
"""AWS ends the keys of its documentation with it."""
_PLACEHOLDERS = re.compile(
    r"(?i)change.?(?:it|this)|replace|dummy|sample|fake|insert|your|\bmy[-_]?|\bxxx|xxx\b|todo|foo.?bar|hunter2|qwerty|letmein"
    r"|pass(?:word|wd)?[-_.]?\d{0,4}$|^(?:the|some|new|old|db|root|admin|user|super|test)?[-_]?(?:secret|token|pass|pwd)"
    r"|^(?:none|null|true|false|undefined)$|correct.?horse"
)
_REFERENCE = re.compile(
    r"(?i)^(?:[$@%&!~^*?#<{\[(/\\]|\.{0,2}/|arn:|[a-z0-9+.-]{2,20}://|file:|vault:|ssm:|op:|ref\+|env[.:]|secretsmanager|projects/|kms"
    r"|sha\d{1,3}[-:]|md5:|base64:|process\.|os\.|self\.|data\.|var\.)"
    r"|::|\$\{|\{\{|%\(|\.(?:ya?ml|json|txt|pem|crt|key|conf|py|go|js|sh)$"
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IDENTIFIER = re.compile(
    r"(?i)(?:CVE|GHSA|CWE|KB|RFC|ISO|RHSA|USN)-?\d[\w-]*|v?\d+(?:[.:_-]\d+)+\w*|\d{4}-\d\d-\d\d\S*"
)
_WORDS = re.compile(r"[-_./:@\s=+]+")
_WORD = re.compile(
    r"[A-Za-z]?[a-z]*\d{0,3}|[A-Z]+\d{0,3}|\d{1,6}|[A-Z]?[a-z]+(?:[A-Z][a-z]{2,}){0,6}\d{0,2}|v\d+[a-z]*\d?"
)
_BASIC = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}")

_STATED_REFERENCE = re.compile(
    r"(?i)^(?:--?[a-z]|\$[a-z_{(@!\[]|%[a-z_]+%|[<\[(]|\{(?!A[\w+/=]{20})|@|&|\*|~?/|\.{1,2}/|\\|#|[!=|>,;:?…–—-]+$"
    r"|![a-z]|[a-z0-9+.-]{2,20}://|arn:|file:|vault:|ssm:|op:"
    r"|ref\+|env[.:(]|secrets?[.(]|secretsmanager|projects/|kms|sha\d{1,3}[-:]|process\.|os\.|self\.|data\.|var\.|local\.|module\.|config\.)"
    r"|\$\{|\$\(|\{\{|%\(|\(\)|\w\($|^\w+\(|^(?-i:[A-Z][A-Za-z]+-[A-Z][A-Za-z]+)$"
    r"|\.(?:ya?ml|json|txt|pem|crt|key|conf|py|go|js|sh|md|html)$|^[*•·.xX_-]+$"
)
_STATED_PLACEHOLDER = re.compile(
    r"(?i)change.?(?:it|this)|^(?:wrong|bad|invalid|incorrect|this.?is.?)"
    r"|^(?:replace|insert|your|enter|choose|type|put|paste|generated?|random)|placeholder|dummy|^fake|\bxxx|xxx\b|todo|foo.?bar"
    r"|^(?:(?:the|some|new|old|my|a|this|db|root|admin|user|database|mysql|postgres|smtp|ldap|vault|bind|client|api|access|auth|bearer|key"
    r"|basic"
    r"|strong|secure|secret|super|plain|clear|encrypted|hashed|current|initial|default|temporary|temp|random|valid|same|confirm|account"
    r"|service|app|store|trust|master)[-_ .]?){0,4}(?:passw(?:or)?ds?|passwd|passphrase|secrets?|tokens?|pass|pwd|pw|passwort"
    r"|kennwort|psk|keys?|credentials?"
    r"|community|string)\d?(?:[-_ ](?:here|value|string|file|path|id|name|policy|reset|hash|length|field|auth|authentication"
    r"|protected|prompt"
    r"|manager|store|provider))*$"
)
_TEMPLATE = re.compile(r"\{\{|\$\{|<[^<>]*>|\.{3}$|^\*+$")


@cache
def _words(section: str) -> frozenset[str]:
    """The words of a section of `no_passwords.txt`."""
    text = Path(__file__).with_name("no_passwords.txt").read_text("utf-8")
    return frozenset(text.partition(f"== {section}\n")[2].partition("\n== ")[0].split())


def is_obvious_placeholder(value: str) -> bool:
    """True for a value that is certainly no secret, even where its form is right."""
    return bool(_OBVIOUS.search(value)) or len(set(value)) < 4 or _is_an_example(value)


def _is_an_example(value: str) -> bool:
    """True for a value with the word "example", unless what surrounds it is long and random itself."""
    found = _OF_EXAMPLE.search(value)
    if not found:
        return False
    if found[0].startswith("EXAMPLE"):
        return True
    rest = value[: found.start()] + value[found.end() :]
    return len(rest) < _LONG_REST or not looks_random(rest)


def is_placeholder(value: str) -> bool:
    """True for placeholders of documentation and for references to a stored secret."""
    return is_obvious_placeholder(value) or bool(_PLACEHOLDERS.search(value) or _REFERENCE.search(value))


def is_hash_or_id(value: str) -> bool:
    """True for UUIDs, versions, dates and advisory numbers."""
    return bool(_UUID.fullmatch(value) or _IDENTIFIER.fullmatch(value))


def looks_random(value: str) -> bool:
    """True if a value is long and mixed enough to be a secret: no words, names, versions or placeholders."""
    value = value.strip().rstrip(".:,")
    if len(value) < MIN_LENGTH or " " in value or not value.isascii() or is_placeholder(value) or is_hash_or_id(value):
        return False
    if all(_WORD.fullmatch(part) for part in _WORDS.split(value) if part):
        return False
    return _classes(value) >= 2 and _entropy(value) >= MIN_BITS


def is_stated(value: str, *, quoted: bool = False) -> bool:
    """True if a value may be the password that a structure states: any characters, but no placeholder, no reference to a
    stored secret, and no word or sentence of documentation."""
    value = value.strip()
    if not _MIN_STATED <= len(value) <= _MAX_STATED or not any(map(str.isalnum, value)):
        return False
    if _OBVIOUS.search(value) or _STATED_REFERENCE.search(value) or _STATED_PLACEHOLDER.search(value):
        return False
    words = value.lower().strip("_*`\"'.,:;()").split()
    alone, in_phrases = _words("alone"), _words("in phrases")
    if len(words) == 1:
        return words[0] not in alone and words[0] not in in_phrases and not _is_an_example(value)
    if len(words) > _MOST_WORDS or words[0] in alone:
        return False
    return in_phrases.isdisjoint(words) if not quoted else sum(word in in_phrases for word in words) < 2


def is_literal(value: str) -> bool:
    """True for any value but a mask, a template, a placeholder or nothing."""
    return bool(value) and value[0] not in "[{<$" and value not in ("null", "~") and not _TEMPLATE.search(value)


def is_named(value: str) -> bool:
    """True if a value that a structure states is more than a plain word: it may be a secret where names of stored
    secrets are as likely."""
    if not is_stated(value) or is_hash_or_id(value) or " " in value.strip():
        return False
    return looks_random(value) or (
        any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not _is_a_name(value)
    )


def _is_a_name(value: str) -> bool:
    return all(_WORD.fullmatch(part) for part in _WORDS.split(value) if part)


def is_clear(value: str) -> bool:
    """True if a single word in prose can't be an ordinary word of the sentence: it has a digit, a mark or a capital."""
    if not is_stated(value) or value.isupper() and len(value) <= 5:  # noqa: RUF021 - an abbreviation
        return False
    return any(map(str.isdigit, value)) or any(map(str.isupper, value)) or any(c in "!$%&#+=_@*" for c in value)


def basic_password(value: str) -> str | None:
    """The password in base64 of `user:password`; None for anything else."""
    text = decoded(value)
    if text is None:
        return None
    user, _, password = text.partition(":")
    return password if user and password else None


def decoded(value: str) -> str | None:
    """The printable ASCII that a value is the base64 of; None for anything else."""
    if not _BASIC.fullmatch(value):
        return None
    try:
        text = base64.b64decode(value, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return text if all(c.isprintable() or c in "\r\n\t" for c in text) else None


def _classes(value: str) -> int:
    """Number of character classes: lower case, upper case, digits, marks other than those that join words."""
    tests = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum() and c not in "-_./: ")
    return sum(any(test(character) for character in value) for test in tests)


def _entropy(value: str) -> float:
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
