"""Whether a value is a secret, or stands where one would be: a placeholder, a name, a reference, a hash."""

from __future__ import annotations

import math
import re
from collections import Counter

MIN_LENGTH = 8
MIN_BITS = 2.5
"""Shannon entropy of a value's characters, in bits each. Eight different characters have 3."""

_OBVIOUS = re.compile(r"(?i)example|placeholder|redacted|masked|x{4}|\*{3}|\.{3}|…|1234567|abcdef|your[-_]|change.?me")
_PLACEHOLDERS = re.compile(
    r"(?i)change.?(?:it|this)|replace|dummy|sample|fake|insert|your|\bmy[-_]?|xxx|todo|foo.?bar|hunter2|qwerty|letmein"
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


def is_obvious_placeholder(value: str) -> bool:
    """True for what nobody takes for a secret even where its form is right."""
    return bool(_OBVIOUS.search(value)) or len(set(value)) < 4


def is_placeholder(value: str) -> bool:
    """True for what documentation writes instead of a secret, and for what says where the secret is."""
    return is_obvious_placeholder(value) or bool(_PLACEHOLDERS.search(value) or _REFERENCE.search(value))


def is_hash_or_id(value: str) -> bool:
    """True for UUIDs, versions, dates and the numbers of advisories."""
    return bool(_UUID.fullmatch(value) or _IDENTIFIER.fullmatch(value))


def looks_random(value: str) -> bool:
    """True for what is long and mixed enough to be a secret: no words, names, versions or placeholders."""
    value = value.strip().rstrip(".:,")
    if len(value) < MIN_LENGTH or " " in value or not value.isascii() or is_placeholder(value) or is_hash_or_id(value):
        return False
    if all(_WORD.fullmatch(part) for part in _WORDS.split(value) if part):
        return False
    return _classes(value) >= 2 and _entropy(value) >= MIN_BITS


def _classes(value: str) -> int:
    """How many of: lower case, upper case, digits, other marks than those which join words."""
    tests = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum() and c not in "-_./: ")
    return sum(any(test(character) for character in value) for test in tests)


def _entropy(value: str) -> float:
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
