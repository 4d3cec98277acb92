"""Finds secrets that only the lines before them tell: columns of tables, Secrets of Kubernetes, variables of Terraform,
values on the line after their name.

Lines are fed in order. A structure is open while the next line may belong to it; most text opens none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from opx.hygiene.secret_formats import PASSWORDS, SecretFormat
from opx.hygiene.secret_values import decoded, is_named, is_stated, looks_random

Found = tuple[SecretFormat, int, int]
"""A format, and the span in the line."""

_LONGEST_LINE = 8192
_MOST_LINES = 500
"""Lines after which a structure is closed, whatever follows."""
_MOST_CELLS = 40
_LONGEST_HEADER = 600
_LONGEST_NAME = 300
_LONGEST_LOGIN = 100

COLUMN = SecretFormat("table-password", "password in a table", (), "", chosen=True)
SECRET_DATA = SecretFormat("kubernetes-secret", "value of a Kubernetes Secret", (), "", chosen=True)
NEXT_LINE = SecretFormat("stated-password", "password", (), "", chosen=True)
KEY_LINE = SecretFormat("stated-key", "secret key", (), "")
PUTTY_KEY = SecretFormat("private-key-lines", "private key of PuTTY", (), "")

HINTS = ("data:", 'data"', "chpasswd", "private-lines", "variable", "login", "account", "username", "line con", "line vty", "line aux", "tacacs", "radius", "assword")
"""Literals in lines that open a structure, beside those of passwords and secrets."""

_SECRET_NAME = re.compile(
    rf"(?i)(?:[\w./#()-]{{1,30}}[ _-]){{0,3}}?(?P<name>{PASSWORDS}|(?:client|app|application|shared|webhook)[ _-]secret|(?:enable|snmp)[ _-](?:secret|community)"
    r"|secret(?:[ _-]access)?[ _-]key|access token|api[ _-](?:key|token)|(?P<weak>secret|token))(?:[ _-]?\d)?"
)
_PAIR_NAME = re.compile(
    rf"(?i)(?:(?<![a-z])(?:{PASSWORDS}|(?P<weak>secret|token|api[_-]?key))|(?<=[a-z])(?-i:Pass(?:word|wd)?|Pwd|(?P<camel>Secret|Token|ApiKey)))\d?$"
)
_CELL = re.compile(r"[\w .:#/()&$*`_'\"-]{0,40}")
_CHAP_SECRETS = re.compile(r"(?i)\s*#\s*client\s+server\s+secret\b")
"""The header of `chap-secrets`, whose columns are separated by blanks."""
_NAMED_COLUMN = re.compile(rf"(?i){PASSWORDS}|secret|token|key")
_PUTTY = re.compile(r"[\s>]*Private-Lines: (\d{1,3})\s*")
_KIND = re.compile(r"\s*[\"']?kind[\"']?\s*:\s*[\"']?(\w*)")
_DATA = re.compile(r"(\s*)[\"']?(data|stringData)[\"']?\s*:\s*(\{?)\s*")
_ENDS_OF_NAMES = (":", "=", "|", ">", "-", "+", "\\", "*", " is", " lautet")
_NAMING = re.compile(r"(?i)name|key|password")
_SHORT_NAME = re.compile(r"(?i)(?:.*[ _-])?(?:pass|pw|pin)(?:[ _-]?\d)?")
_USER_NAME = re.compile(r"(?i).*(?:user|login|account|host|system|device|benutzer).*")
_DIVIDER = re.compile(r"[\s|+:=-]+\n?")
_ITEM = re.compile(r"\s*(?:-\s)?[\"']?[\w./-]+[\"']?\s?:\s*(?P<rest>\S.*)?")
_QUOTES = "\"'"
_PENDING = re.compile(
    rf"(?i)(?P<indent>\s*)[\s>#*|-]{{0,12}}(?:.{{0,120}}[^a-z])?(?:(?P<password>{PASSWORDS})|(?P<key>secret access key|(?:api|access|secret|private|encryption|signing)"
    r"[ _-]?key|[\w-]{0,40}_(?:key|secret|token)|token|secret)(?:\s(?:of|for)\s.{1,40})?)[\"'*_]{0,3}\s{0,4}(?P<mark>[:=]\s?[|>]?[+-]?\s?\\?|\sis|\slautet|\\)?[*_]{0,2}\s*$"
)
_PLAIN_VALUE = re.compile(r"\s*(?:[:>]\s)?[\"'`]?(?P<value>[^\s\"'`{}\[\]<>:|][^\n\"`{}<>|]{1,127}?)[\"'`]?\s*$")
_RANDOM_VALUE = re.compile(r"\s*(?:>\s|-\s)?[\"'`]?(?P<value>[A-Za-z0-9+/=_.~-]{16,512})[\"'`]?\s*$")
_DIGITS_VALUE = re.compile(r"\s*(?P<value>\d{6}(?:-\d{6}){7})\s*$")
_VARIABLE = re.compile(r"(?i)\s*variable\s+\"(?P<name>[^\"]{1,100})\"\s*\{")
_VARIABLE_NAME = re.compile(rf"(?i).*(?:{PASSWORDS}|secret|token|(?:api|access|secret|private|shared|preshared|encryption)_?key|community)")
_NO_VARIABLE = re.compile(r"(?i)_(?:days|name|arn|id|ids|path|file|length|enabled|policy|type|version|ttl|url)$|^(?:enable|use|create|manage)_")
_DEFAULT = re.compile(r"\bdefault\s*=\s*\"(?P<value>[^\"\n]{2,256})\"")
_NAME_LINE = re.compile(
    r"(?i)\s*(?:-\s)?[\"']?(?:name|key)[\"']?\s*:\s*[\"']?(?P<name>[\w.-]{2,80})[\"']?,?\s*$|\s*<(?:name|key)>(?P<tag>[\w.-]{2,80})</|\s*<(?P<element>password|\w{0,20}password)>\s*$"
)
_VALUE_LINE = re.compile(
    r"(?i)\s*[\"']?value[\"']?\s*:\s*(?:\"(?P<double>[^\"\n]{2,256})\"|'(?P<single>[^'\n]{2,256})'|(?P<bare>[^\s\"'{\[|>&*!][^\n#]{1,127}?)),?\s*$|\s*<value>(?P<tag>[^<\n]{2,256})</"
)
_ELEMENT_TEXT = re.compile(r"\s*(?P<text>[^<>\n]{2,128}?)\s*$")
_LOGIN = re.compile(r"(?i)\s*(?:login|user|username|account|machine|line (?:con|vty|aux)|(?:tacacs|radius)[ -]server)\b\s*\S{1,60}")
_NEXT_PASSWORD = re.compile(r"(?i)\s*(?:password|passwd|key)\s+(?:\d\s+)?\"?(?P<value>[^\s\"]{2,128})\"?\s*$")
_SEND = re.compile(r"\bsend\s(?:--\s)?\"(?P<value>[^\"\n]{2,64}?)(?:\\r|\\n)*\"")
_CHPASSWD = re.compile(r"\s*(?:-\s)?[a-z_][\w-]{0,31}:(?P<value>\S{2,160})\s*$")


@dataclass(slots=True)
class _Table:
    """A table whose header names columns with secrets; `weak` ones may hold names of secrets."""

    delimiter: str
    cells: int
    columns: dict[int, bool]
    confirmed: bool = True
    """False until a line of dashes followed, where the format has one."""


@dataclass(slots=True)
class _Mapping:
    """Lines that are indented deeper than `indent`. `certain`: each value is secret, else only base64 of text."""

    indent: int
    certain: bool
    json: bool = False
    scalar: int = -1
    """Indentation of the key whose block of lines follows; -1 for none."""


@dataclass(slots=True)
class _Pending:
    """A name whose value may stand in the next lines."""

    lines: int
    indent: int
    password: bool
    blank: bool = False
    continued: bool = False


@dataclass(slots=True)
class Structures:
    """Follows the structures of one text."""

    _table: _Table | None = None
    _mapping: _Mapping | None = None
    _pending: _Pending | None = None
    _variable: bool = False
    _named: tuple[int, bool] | None = None
    _element: bool = False
    _login: int = 0
    _expected: int = 0
    _chpasswd: int = -1
    _putty: int = 0
    _since: int = 0
    _kind_secret: bool = False

    @property
    def is_open(self) -> bool:
        """True if the next line may belong to a structure."""
        return bool(
            self._table or self._mapping or self._pending or self._variable or self._named or self._login or self._expected or self._putty
        ) or self._chpasswd >= 0

    def skip(self, line: str) -> None:
        """Takes note of a line that can't open or belong to a structure."""
        if line.startswith("---") or line.startswith("```") or line.startswith("#"):
            self._kind_secret = False

    def feed(self, line: str) -> Iterator[Found]:
        """Yields the secrets of the next line."""
        self._since += 1
        if len(line) > _LONGEST_LINE or self._since > _MOST_LINES:
            self._close()
            return
        was_open = self.is_open
        text = line.rstrip("\r\n")
        for step in (self._putty_line, self._table_line, self._mapping_line, self._pending_line, self._named_line,
                     self._login_line, self._chpasswd_line, self._variable_line):  # fmt: skip
            yield from step(text)
        if was_open and not self.is_open:
            self._since = 0

    def _close(self) -> None:
        self._table = self._mapping = self._pending = self._named = None
        self._variable, self._login, self._expected, self._putty, self._chpasswd, self._since = False, 0, 0, 0, -1, 0

    # -- PuTTY

    def _putty_line(self, text: str) -> Iterator[Found]:
        if self._putty:
            self._putty -= 1
            start = len(text) - len(text.lstrip())
            if text.strip():
                yield PUTTY_KEY, start, len(text.rstrip())
            return
        found = _PUTTY.fullmatch(text) if "Private-Lines" in text else None
        if found:
            self._putty = int(found[1])

    # -- tables

    def _table_line(self, text: str) -> Iterator[Found]:
        table = self._table
        if table and _DIVIDER.fullmatch(text) and ("-" in text or "=" in text):
            table.confirmed = True
            return
        if table and text.strip() in ("|-", "|}"):
            return
        if table:
            cells = _cells(text, table.delimiter)
            fits = len(cells) == table.cells if table.cells else len(cells) > max(table.columns)
            if fits and table.confirmed:
                yield from _in_columns(text, cells, table)
                return
            self._table = None
        self._table = _header(text)

    # -- Kubernetes

    def _mapping_line(self, text: str) -> Iterator[Found]:
        mapping = self._mapping
        indent = len(text) - len(text.lstrip())
        if mapping and text.strip():
            if indent > mapping.indent and not text.lstrip().startswith("}"):
                yield from _in_mapping(text, indent, mapping)
                return
            self._mapping = None
        if text.startswith(("---", "```", "apiVersion:")):
            self._kind_secret = False
        if "kind" in text:
            kind = _KIND.match(text)
            self._kind_secret = kind[1] == "Secret" if kind else self._kind_secret
        opened = _DATA.fullmatch(text) if "ata" in text else None
        if opened:
            certain = self._kind_secret or opened[2] == "stringData"
            self._mapping = _Mapping(indent, certain, json=bool(opened[3]))

    # -- values on the next line

    def _pending_line(self, text: str) -> Iterator[Found]:
        pending = self._pending
        if pending and not text.strip():
            pending.blank = True
            return
        if pending:
            self._pending = None
            yield from _next_value(text, pending)
        found = _PENDING.match(text) if len(text) < _LONGEST_NAME and text.rstrip().endswith(_ENDS_OF_NAMES) else None
        if found and (found["mark"] or (found["password"] and re.match(r"\s*\*\*", text))):
            indent = len(found["indent"])
            continued = (found["mark"] or "").strip().endswith("\\")
            self._pending = _Pending(2, indent, bool(found["password"]), continued=continued)

    # -- `name:` and `value:` in two lines

    def _named_line(self, text: str) -> Iterator[Found]:
        if self._named:
            left, weak = self._named
            value = _VALUE_LINE.match(text) or (_ELEMENT_TEXT.match(text) if self._element else None)
            self._named = (left - 1, weak) if left > 1 and not value else None
            if value:
                name = next(name for name, found in value.groupdict().items() if found)
                if is_named(value[name]) if weak else is_stated(value[name], quoted=name in ("double", "single")):
                    yield NEXT_LINE, *value.span(name)
        found = _NAME_LINE.match(text) if len(text) < _LONGEST_NAME and _NAMING.search(text) else None
        if found:
            name = found["name"] or found["tag"] or found["element"]
            secret = _PAIR_NAME.search(name)
            if secret:
                self._named, self._element = (2, bool(secret["weak"] or secret["camel"])), bool(found["element"])

    # -- a user and its password in lines

    def _login_line(self, text: str) -> Iterator[Found]:
        if self._login:
            self._login -= 1
            found = _NEXT_PASSWORD.match(text)
            if found and is_stated(found["value"]):
                yield NEXT_LINE, *found.span("value")
        if self._expected:
            self._expected -= 1
            found = _SEND.search(text)
            if found and is_stated(found["value"], quoted=True):
                yield NEXT_LINE, *found.span("value")
        if "expect" in text and "assword" in text:
            self._expected = 2
            found = _SEND.search(text)
            if found and is_stated(found["value"], quoted=True):
                yield NEXT_LINE, *found.span("value")
        if len(text) < _LONGEST_LOGIN and _LOGIN.match(text):
            self._login = 3

    def _chpasswd_line(self, text: str) -> Iterator[Found]:
        if self._chpasswd >= 0 and text.strip():
            indent = len(text) - len(text.lstrip())
            if indent <= self._chpasswd:
                self._chpasswd = -1
            else:
                found = _CHPASSWD.match(text)
                if found and is_stated(found["value"]):
                    yield NEXT_LINE, *found.span("value")
        if text.strip() == "chpasswd:":
            self._chpasswd = len(text) - len(text.lstrip())

    # -- Terraform

    def _variable_line(self, text: str) -> Iterator[Found]:
        opened = _VARIABLE.match(text) if "variable" in text else None
        if opened:
            self._variable = bool(_VARIABLE_NAME.match(opened["name"])) and not _NO_VARIABLE.search(opened["name"])
        if self._variable:
            found = _DEFAULT.search(text)
            if found and is_stated(found["value"], quoted=True):
                yield NEXT_LINE, *found.span("value")
            if text.startswith("}") or text.rstrip().endswith("}"):
                self._variable = False


def _next_value(text: str, pending: _Pending) -> Iterator[Found]:
    indent = len(text) - len(text.lstrip())
    random = _RANDOM_VALUE.match(text)
    if random and looks_random(random["value"]):
        yield KEY_LINE, *random.span("value")
        return
    digits = _DIGITS_VALUE.match(text)
    if digits:
        yield KEY_LINE, *digits.span("value")
        return
    deeper = indent > pending.indent or text.lstrip().startswith(": ")
    if pending.password and deeper and not pending.blank and not text.lstrip().startswith(("-", "#", "*", "|")):
        plain = _PLAIN_VALUE.match(text)
        if plain and is_stated(plain["value"]):
            yield NEXT_LINE, *plain.span("value")


def _in_mapping(text: str, indent: int, mapping: _Mapping) -> Iterator[Found]:
    if 0 <= mapping.scalar < indent:
        if mapping.certain and text.strip():
            yield SECRET_DATA, indent, len(text.rstrip())
        return
    mapping.scalar = -1
    item = _ITEM.match(text.rstrip())
    if not item or not item["rest"]:
        return
    rest = item["rest"]
    if re.fullmatch(r"[|>][+-]?\d?", rest):
        mapping.scalar = indent
        return
    start, end = item.span("rest")
    value = rest.rstrip(",") if mapping.json else rest
    value = value.strip()
    if len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]:
        start, value = start + 1, value[1:-1]
    end = start + len(value)
    if not value or value[0] in "{[<$" or value in ("null", "~", '""', "''"):
        return
    text_of = decoded(value) if len(value) >= 8 or value.endswith("=") else None
    if mapping.certain and (text_of is not None or is_masked_always(value)):
        yield SECRET_DATA, start, end
    elif text_of is not None and len(text_of) >= 3 and re.search(r"[A-Za-z0-9]", text_of):
        yield SECRET_DATA, start, end


def is_masked_always(value: str) -> bool:
    """True for any value of a Secret that is no mask and no template."""
    return not value.startswith("[masked ") and "{{" not in value and "${" not in value and not re.search(r"<[^>]*>|^\.{3}$|^\*+$", value)


# -- tables


def _delimiter(text: str) -> str:
    for delimiter in ("||", "!!", "|", "\t", ";", ","):
        if delimiter in text:
            return delimiter
    return ""


def _cells(text: str, delimiter: str) -> list[tuple[int, int]]:
    """Spans of the cells of a line, without blanks and quotes. Delimiters at both ends of a line open no cell."""
    if delimiter == " ":
        return [match.span() for match in islice(re.finditer(r"\"[^\"]*\"|\S+", text), _MOST_CELLS)]
    if delimiter in ",;":
        pattern = rf"(?:^|(?<={delimiter}))(?:\"[^\"]*\"(?={delimiter}|$)|[^{delimiter}]*)"
        spans = [match.span() for match in islice(re.finditer(pattern, text), _MOST_CELLS + 1)]
    else:
        spans, at = [], 0
        for part in text.split(delimiter):
            spans.append((at, at + len(part)))
            at += len(part) + len(delimiter)
        if len(spans) > 1 and not text[: spans[0][1]].strip():
            spans = spans[1:]
        if len(spans) > 1 and not text[spans[-1][0] :].strip() and delimiter in ("|", "||"):
            spans = spans[:-1]
    return [_trimmed(text, start, end) for start, end in spans[: _MOST_CELLS + 1]]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in " \t\"'`":
        start += 1
    while end > start and text[end - 1] in " \t\"'`\r":
        end -= 1
    return start, end


def _header(text: str) -> _Table | None:
    """The table that a line begins, if a column's name is that of a password or secret."""
    if len(text) > _LONGEST_HEADER or not _NAMED_COLUMN.search(text):
        return None
    if _CHAP_SECRETS.match(text):
        return _Table(" ", 0, {2: False})
    delimiter = _delimiter(text)
    if not delimiter:
        return None
    start = re.match(r"\s*(?:\|\||!|\^)?", text)
    cells = _cells(text, delimiter)
    names = [text[a:b].strip("*_` !|#") for a, b in cells]
    if not 2 <= len(cells) <= _MOST_CELLS or not all(_CELL.fullmatch(name) for name in names) or start is None:
        return None
    if delimiter in ",;" and (text[0].isspace() or "" in names or text.rstrip().endswith((".", ":")) or any(len(name.split()) > 4 for name in names)):
        return None
    columns_found = {}
    for at, name in enumerate(names):
        secret = _SECRET_NAME.fullmatch(name)
        if secret and (not _SHORT_NAME.fullmatch(name) or any(map(_USER_NAME.fullmatch, names))):
            columns_found[at] = bool(secret["weak"])
    if not columns_found:
        return None
    below = "|" if delimiter == "||" else "||" if delimiter == "!!" else delimiter
    return _Table(below, len(cells), columns_found, confirmed=delimiter != "|")


def _in_columns(text: str, cells: list[tuple[int, int]], table: _Table) -> Iterator[Found]:
    for at, weak in table.columns.items():
        start, end = cells[at]
        value = text[start:end]
        if value.startswith("[masked "):
            continue
        if is_named(value) if weak else is_stated(value, quoted=True):
            yield COLUMN, start, end
