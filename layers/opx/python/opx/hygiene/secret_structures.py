"""Finds secrets by the lines before them: Secrets of Kubernetes, variables of Terraform, tables, values on the
line after their name.

Lines are fed in order. A structure is open while the next line may belong to it; most text opens none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from opx.hygiene.secret_formats import PASSWORDS, SecretFormat
from opx.hygiene.secret_tables import Found, SecretTables
from opx.hygiene.secret_values import decoded, is_literal, is_named, is_stated, looks_random

_LONGEST_LINE = 8192
_LONGEST_NAME = 300
_LONGEST_LOGIN = 100
_LINES_AFTER_LOGIN = 3
_LINES_AFTER_NAME = 2

SECRET_DATA = SecretFormat("kubernetes-secret", "value of a Kubernetes Secret", (), "", chosen=True)
NEXT_LINE = SecretFormat("stated-password", "password", (), "", chosen=True)
KEY_LINE = SecretFormat("stated-key", "secret key", (), "")
PUTTY_KEY = SecretFormat("private-key-line", "line of a private key of PuTTY", (), "")

HINTS = (
    *(
        "data:",
        'data"',
        "apiversion",
        "chpasswd",
        "private-lines",
        "variable",
        "login",
        "account",
        "username",
        "assword",
    ),
    *("line con", "line vty", "line aux", "tacacs", "radius"),
)
"""Literals in lines that open a structure, beside those of passwords and secrets."""


class Structure(Protocol):
    """Follows one kind of structure, line by line."""

    @property
    def is_open(self) -> bool:
        """True if the next line may belong to the structure."""
        ...

    def close(self) -> None:
        """Ends the structure."""

    def feed(self, text: str) -> Iterator[Found]:
        """Yields the secrets of the next line, which has no line break."""
        ...


class PuttyKeys:
    """The private part of PuTTY's key files."""

    _HEAD = re.compile(r"[\s>]*Private-Lines: (\d{1,3})\s*")

    def __init__(self) -> None:
        self._left = 0

    @property
    def is_open(self) -> bool:
        return self._left > 0

    def close(self) -> None:
        self._left = 0

    def feed(self, text: str) -> Iterator[Found]:
        if self._left:
            self._left -= 1
            if text.strip() and "[masked " not in text:
                yield PUTTY_KEY, _indent(text), len(text.rstrip())
        elif "Private-Lines" in text and (head := self._HEAD.fullmatch(text)):
            self._left = int(head[1])


class KubernetesSecrets:
    """Data of Secrets, as YAML or JSON. `kind` may follow the data: then only base64 of text is taken for a secret."""

    _KIND = re.compile(r"\s*[\"']?kind[\"']?\s*:\s*[\"']?(\w*)")
    _DATA = re.compile(r"(\s*)[\"']?(data|stringData)[\"']?\s*:\s*\{?\s*")
    _ITEM = re.compile(r"\s*(?:-\s)?[\"']?[\w./-]+[\"']?\s?:\s*(?P<value>\S.*)")
    _SCALAR = re.compile(r"[|>][+-]?\d?")
    _SHORTEST = 8

    def __init__(self) -> None:
        self._is_secret = False
        self._certain = False
        self._indent = -1
        self._scalar = -1
        """Indentation of the data, and of the key whose block of lines follows; -1 for none."""

    @property
    def is_open(self) -> bool:
        return self._indent >= 0

    def close(self) -> None:
        self._indent = -1

    def feed(self, text: str) -> Iterator[Found]:
        if self.is_open and text.strip():
            if _indent(text) > self._indent and not text.lstrip().startswith("}"):
                yield from self._in_data(text)
                return
            self.close()
        if "apiVersion" in text or text.startswith(("---", "```")):
            self._is_secret = False
        if "kind" in text and (kind := self._KIND.match(text)):
            self._is_secret = kind[1] == "Secret"
        elif "ata" in text and (opened := self._DATA.fullmatch(text)):
            self._indent, self._scalar = len(opened[1]), -1
            self._certain = self._is_secret or opened[2] == "stringData"

    def _in_data(self, text: str) -> Iterator[Found]:
        indent = _indent(text)
        if 0 <= self._scalar < indent:
            if self._certain:
                yield SECRET_DATA, indent, len(text.rstrip())
            return
        self._scalar = -1
        item = self._ITEM.match(text.rstrip())
        if not item:
            return
        if self._SCALAR.fullmatch(item["value"]):
            self._scalar = indent
            return
        start, end = _unquoted(text, *item.span("value"))
        if self._is_value(text[start:end]):
            yield SECRET_DATA, start, end

    def _is_value(self, value: str) -> bool:
        if self._certain and is_literal(value):
            return True
        text = decoded(value) if len(value) >= self._SHORTEST or value.endswith("=") else None
        return text is not None and any(map(str.isalnum, text))


@dataclass(slots=True)
class _Pending:
    indent: int
    password: bool
    blank: bool = False


class NextLines:
    """Values on the line after their name. A plain word counts only if it is indented deeper, as in YAML."""

    _NAME = re.compile(
        rf"(?i)\s*[\s>#*|-]{{0,12}}(?:.{{0,120}}[^a-z])?(?:(?P<password>{PASSWORDS})"
        r"|(?:secret access key|(?:api|access|secret|private|encryption|signing)[ _-]?key|[\w-]{0,40}_(?:key|secret|token)"
        r"|token|secret)(?:\s(?:of|for)\s.{1,40})?)"
        r"[\"'*_]{0,3}\s{0,4}(?P<mark>[:=]\s?[|>]?[+-]?\s?\\?|\sis|\slautet|\\)?[*_]{0,2}"
    )
    _ENDS = (":", "=", "|", ">", "-", "+", "\\", "*", " is", " lautet")
    _PLAIN = re.compile(r"\s*(?:[:>]\s)?[\"'`]?(?P<value>[^\s\"'`{}\[\]<>:|][^\n\"`{}<>|]{1,127}?)[\"'`]?")
    _RANDOM = re.compile(r"\s*(?:>\s|-\s)?[\"'`]?(?P<value>[A-Za-z0-9+/=_.~-]{16,512})[\"'`]?")
    _GROUPS = re.compile(r"\s*(?P<value>\d{6}(?:-\d{6}){7})")
    """A recovery key of BitLocker."""
    _MARKUP = ("-", "#", "*", "|")

    def __init__(self) -> None:
        self._pending: _Pending | None = None

    @property
    def is_open(self) -> bool:
        return self._pending is not None

    def close(self) -> None:
        self._pending = None

    def feed(self, text: str) -> Iterator[Found]:
        text = text.rstrip()
        pending, self._pending = self._pending, None
        if pending and not text:
            pending.blank = True
            self._pending = pending
            return
        if pending:
            yield from self._value(text, pending)
        name = self._NAME.fullmatch(text) if len(text) < _LONGEST_NAME and text.endswith(self._ENDS) else None
        if name and (name["mark"] or (name["password"] and text.lstrip().startswith("**"))):
            self._pending = _Pending(_indent(text), bool(name["password"]))

    def _value(self, text: str, pending: _Pending) -> Iterator[Found]:
        random = self._RANDOM.fullmatch(text)
        if random and looks_random(random["value"]):
            yield KEY_LINE, *random.span("value")
        elif groups := self._GROUPS.fullmatch(text):
            yield KEY_LINE, *groups.span("value")
        elif pending.password and not pending.blank and self._is_deeper(text, pending):
            plain = self._PLAIN.fullmatch(text)
            if plain and is_stated(plain["value"]):
                yield NEXT_LINE, *plain.span("value")

    def _is_deeper(self, text: str, pending: _Pending) -> bool:
        bare = text.lstrip()
        return bare.startswith(": ") or (_indent(text) > pending.indent and not bare.startswith(self._MARKUP))


class NamedValues:
    """`name: DB_PASSWORD` and `value: …` on lines of their own, as YAML, JSON or XML."""

    _NAMING = re.compile(r"(?i)name|key|password")
    _NAME = re.compile(
        r"(?i)\s*(?:-\s)?[\"']?(?:name|key)[\"']?\s*:\s*[\"']?(?P<name>[\w.-]{2,80})[\"']?,?\s*"
        r"|\s*<(?:name|key)>(?P<tag>[\w.-]{2,80})</(?:name|key)>\s*|\s*<(?P<element>\w{0,20}password)>\s*"
    )
    _SECRET = re.compile(
        rf"(?i)(?:(?<![a-z])(?:{PASSWORDS}|(?P<weak>secret|token|api[_-]?key))"
        r"|(?<=[a-z])(?-i:Pass(?:word|wd)?|Pwd|(?P<camel>Secret|Token|ApiKey))|password)\d?$"
    )
    _VALUE = re.compile(
        r"(?i)\s*[\"']?value[\"']?\s*:\s*(?:\"(?P<double>[^\"\n]{2,256})\"|'(?P<single>[^'\n]{2,256})'"
        r"|(?P<bare>[^\s\"'{\[|>&*!][^\n#]{1,127}?)),?\s*$|\s*<value>(?P<tag>[^<\n]{2,256})</"
    )
    _TEXT = re.compile(r"\s*(?P<text>[^<>\n]{2,128}?)\s*$")

    def __init__(self) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self._left > 0

    def close(self) -> None:
        self._left, self._weak, self._element = 0, False, False

    def feed(self, text: str) -> Iterator[Found]:
        if self._left:
            self._left -= 1
            value = self._VALUE.match(text) or (self._TEXT.match(text) if self._element else None)
            if value:
                yield from self._judged(value)
                self.close()
        name = self._NAME.fullmatch(text) if len(text) < _LONGEST_NAME and self._NAMING.search(text) else None
        secret = self._SECRET.search(name["name"] or name["tag"] or name["element"]) if name else None
        if name and secret:
            self._left = _LINES_AFTER_NAME
            self._weak, self._element = bool(secret["weak"] or secret["camel"]), bool(name["element"])

    def _judged(self, value: re.Match[str]) -> Iterator[Found]:
        group = next(name for name, found in value.groupdict().items() if found)
        text = value[group]
        if is_named(text) if self._weak else is_stated(text, quoted=group != "bare"):
            yield NEXT_LINE, *value.span(group)


class Logins:
    """A password in one of the lines after a user, a line of a switch or a prompt that a script expects."""

    _LOGIN = re.compile(
        r"(?i)\s*(?:login|user|username|account|machine|line (?:con|vty|aux)|(?:tacacs|radius)[ -]server)\b\s*\S{1,60}"
    )
    _PASSWORD = re.compile(r"(?i)\s*(?:password|passwd|key)\s+(?:\d\s+)?\"?(?P<value>[^\s\"]{2,128})\"?\s*")
    _SEND = re.compile(r"\bsend\s(?:--\s)?\"(?P<value>[^\"\n]{2,64}?)(?:\\r|\\n)*\"")

    def __init__(self) -> None:
        self._left = 0
        self._prompts = 0

    @property
    def is_open(self) -> bool:
        return bool(self._left or self._prompts)

    def close(self) -> None:
        self._left = self._prompts = 0

    def feed(self, text: str) -> Iterator[Found]:
        if "expect" in text and "assword" in text:
            self._prompts = _LINES_AFTER_LOGIN
        if self._prompts:
            self._prompts -= 1
            yield from _stated(self._SEND.search(text), quoted=True)
        if self._left:
            self._left -= 1
            yield from _stated(self._PASSWORD.fullmatch(text), quoted=False)
        if len(text) < _LONGEST_LOGIN and self._LOGIN.match(text):
            self._left = _LINES_AFTER_LOGIN


class InitialPasswords:
    """`user:password` in lines below `chpasswd:` of cloud-init."""

    _PAIR = re.compile(r"\s*(?:-\s)?[a-z_][\w-]{0,31}:(?P<value>\S{2,160})\s*")

    def __init__(self) -> None:
        self._indent = -1

    @property
    def is_open(self) -> bool:
        return self._indent >= 0

    def close(self) -> None:
        self._indent = -1

    def feed(self, text: str) -> Iterator[Found]:
        if self.is_open and text.strip():
            if _indent(text) > self._indent:
                yield from _stated(self._PAIR.fullmatch(text), quoted=False)
            else:
                self.close()
        if text.strip() == "chpasswd:":
            self._indent = _indent(text)


class Variables:
    """Defaults of Terraform's variables that are named like a secret."""

    _HEAD = re.compile(r"(?i)\s*variable\s+\"(?P<name>[^\"]{1,100})\"\s*\{")
    _SECRET = re.compile(
        rf"(?i){PASSWORDS}|secret|token|(?:api|access|secret|private|shared|preshared|encryption)_?key|community"
    )
    _OTHER = re.compile(
        r"(?i)_(?:days|name|arn|id|ids|path|file|length|enabled|policy|type|version|ttl|url)$|^(?:enable|use|create|manage)_"
    )
    _DEFAULT = re.compile(r"\bdefault\s{0,20}=\s{0,4}\"(?P<value>[^\"\n]{2,256})\"")

    def __init__(self) -> None:
        self._open = False

    @property
    def is_open(self) -> bool:
        return self._open

    def close(self) -> None:
        self._open = False

    def feed(self, text: str) -> Iterator[Found]:
        if "variable" in text and (head := self._HEAD.match(text)):
            self._open = bool(self._SECRET.search(head["name"])) and not self._OTHER.search(head["name"])
        if self._open:
            yield from _stated(self._DEFAULT.search(text), quoted=True)
            self._open = not text.rstrip().endswith("}")


def _every_structure() -> tuple[Structure, ...]:
    return (
        PuttyKeys(),
        SecretTables(),
        KubernetesSecrets(),
        NextLines(),
        NamedValues(),
        Logins(),
        InitialPasswords(),
        Variables(),
    )


@dataclass(slots=True)
class Structures:
    """Follows all structures through one text."""

    _each: tuple[Structure, ...] = field(default_factory=_every_structure)

    @property
    def is_open(self) -> bool:
        """True if the next line may belong to a structure."""
        return any(each.is_open for each in self._each)

    def feed(self, line: str) -> Iterator[Found]:
        """Yields the secrets of the next line."""
        text = line.rstrip("\r\n")
        for each in self._each:
            if len(text) > _LONGEST_LINE:
                each.close()
            else:
                yield from each.feed(text)


def _stated(match: re.Match[str] | None, *, quoted: bool) -> Iterator[Found]:
    if match and is_stated(match["value"], quoted=quoted):
        yield NEXT_LINE, *match.span("value")


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _unquoted(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without a comma after it and quotes around it."""
    value = text[start:end].rstrip(" ,")
    end = start + len(value)
    if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
        return start + 1, end - 1
    return start, end
