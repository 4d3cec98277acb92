"""Judges values: random characters, passwords that a structure states, placeholders, references, identifiers."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter

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
_BASIC = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}")

_STATED_REFERENCE = re.compile(
    r"(?i)^(?:--?[a-z]|\$[a-z_{(@!\[]|%[a-z_]+%|[<\[(]|\{(?!A[\w+/=]{20})|@|&|\*|~?/|\.{1,2}/|\\|#|[!=|>,;:?…–—-]+$|![a-z]|[a-z0-9+.-]{2,20}://|arn:|file:|vault:|ssm:|op:"
    r"|ref\+|env[.:(]|secrets?[.(]|secretsmanager|projects/|kms|sha\d{1,3}[-:]|process\.|os\.|self\.|data\.|var\.|local\.|module\.|config\.)"
    r"|\$\{|\$\(|\{\{|%\(|\(\)|\w\($|^\w+\(|^(?-i:[A-Z][A-Za-z]+-[A-Z][A-Za-z]+)$|\.(?:ya?ml|json|txt|pem|crt|key|conf|py|go|js|sh|md|html)$|^[*•·.xX_-]+$"
)
_STATED_PLACEHOLDER = re.compile(
    r"(?i)change.?(?:it|this)|^(?:wrong|bad|invalid|incorrect|this.?is.?)|^(?:replace|insert|your|enter|choose|type|put|paste|generated?|random)|placeholder|dummy|^fake|xxx|todo|foo.?bar"
    r"|^(?:(?:the|some|new|old|my|a|this|db|root|admin|user|database|mysql|postgres|smtp|ldap|vault|bind|client|api|access|auth|bearer|key|basic"
    r"|strong|secure|secret|super|plain|clear|encrypted|hashed|current|initial|default|temporary|temp|random|valid|same|confirm|account"
    r"|service|app|store|trust|master)[-_ .]?){0,4}(?:passw(?:or)?ds?|passwd|passphrase|secrets?|tokens?|pass|pwd|pw|passwort|kennwort|psk|keys?|credentials?"
    r"|community|string)\d?(?:[-_ ](?:here|value|string|file|path|id|name|policy|reset|hash|length|field|auth|authentication|protected|prompt"
    r"|manager|store|provider))*$"
)
_OF_DOCUMENTATION = frozenset(
    """
    string str text int integer bool boolean bytes object array any char varchar none null nil undefined true false yes no on off y n
    enabled disabled enable disable required optional mandatory empty blank unset set default defaults prompt ask asked stdin stdout file
    environment env see unknown invalid valid wrong correct incorrect expired expires expiring rotated rotation changed change removed
    deprecated hidden masked encrypted encoded hashed plaintext cleartext plain base64 md5 sha1 sha256 bcrypt argon2 pbkdf2 scram ldap
    kerberos oauth oauth2 oidc saml basic digest bearer jwt pam peer trust publickey interactive n/a na tbd tba value values name names
    field fields key keys type types id user username login host hostname url uri description notes note comment comments column variable
    parameter option options setting settings config configuration used use using needed missing absent present failed failure reset
    resets policy policies protected store stored store managed manager hash hashes auth authentication authorization login logins
    and or not for from the this that these is are was were must should may can will be of to in with without by as at it its if when
    which where who prompts required. admin-only sensitive internal external secret-free read write readonly private public vault
    lambda function def class return their them his her whose outside inside one-time otp totp mfa 2fa pin certificate cert ssh tls ssl rsa keepass bitwarden lastpass 1password keychain keyring kdc iam aws
    forgotten forgot lost leaked compromised strength length minimum maximum min max characters chars digits here there below above
    automatically auto generated random dynamic static yes/no true/false alphanumeric reload restart ok error errors warning only always
    never same different both all some another other new old own current previous next first last expiry lifetime rotate rotates again
    exposure leak leaks reuse spraying guessing cracking complexity synchronization sync writeback expiration age history recovery
    erforderlich optional verschlüsselt geändert abgelaufen siehe leer keine kein nein ja gesperrt falsch richtig vergessen
    """.split()
)
_FUNCTION_WORDS = frozenset(
    """the a an of is are was were be been to in for from with without by as at if when which that this these it its must should may
    can will not and or your you we our their they has have had see use used using must per via into than then please only contains
    stored reset der die das des dem den ein eine ist sind wird werden und oder nicht mit ohne für von zum zur im wenn siehe""".split()
)


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
    if len(words) == 1:
        return words[0] not in _OF_DOCUMENTATION and words[0] not in _FUNCTION_WORDS and not _is_an_example(value)
    if len(words) > _MOST_WORDS or words[0] in _OF_DOCUMENTATION:
        return False
    return _FUNCTION_WORDS.isdisjoint(words) if not quoted else sum(word in _FUNCTION_WORDS for word in words) < 2


def is_named(value: str) -> bool:
    """True if a value that a structure states is more than a plain word: it may be a secret where names of stored
    secrets are as likely."""
    if not is_stated(value) or is_hash_or_id(value) or " " in value.strip():
        return False
    return looks_random(value) or (any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not _is_a_name(value))


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
