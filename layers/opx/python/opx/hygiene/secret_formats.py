"""Formats of secrets in one line: those that issuers document, and those of names, addresses, headers and options.

A format with `hints` is searched only where one of them occurs: literals in lower case, at least one of which is in every
text that the pattern matches. Each pattern takes linear time or a bounded number of steps a character: a line may have
64 Ki characters that an attacker chose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class ValueTest(StrEnum):
    """The test that a value has to pass, beside the pattern."""

    FORM = "form"
    """Anything but an obvious placeholder: the form itself is enough."""
    CHOSEN = "chosen"
    """No placeholder and no reference."""
    RANDOM = "random"
    """Looks random."""
    STATED = "stated"
    """May be an ordinary word, as the structure states that it is a password."""
    NAMED = "named"
    """Stated, and no plain word: names of stored secrets stand in the same position."""
    BASIC = "basic"
    """Base64 of `user:password`."""
    CLEAR = "clear"
    """Stated in prose: no word that the sentence may need."""


@dataclass(frozen=True, slots=True)
class SecretFormat:
    """A format of secrets. `kind` replaces the secret, `label` is its name for people. The named group is masked.

    `chosen`: people may have made it up, so that little of it may be disclosed.
    """

    kind: str
    label: str
    hints: tuple[str, ...]
    regex: str
    judgement: ValueTest = ValueTest.FORM
    chosen: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern. Most patterns are never needed: documents have few hints."""
        return _compiled(self.regex)


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


NAMES = (
    r"(?:pass(?:word|wd|phrase|code|wort)?|mot de passe|kennwort|contraseña|senha|pwd|secret|token|api[ _-]?key"
    r"|access[ _-]?key|secret[ _-]?key|private[ _-]?key"
    r"|signing[ _-]?key|encryption[ _-]?key|account[ _-]?key|shared[ _-]?key|auth[ _-]?key|credentials?)"
)
PASSWORDS = r"(?:passwords?|passwd|passphrase|passcode|passwort|pass|pwd|pw|psk|kennwort|mot de passe|contraseña|senha)"
"""Names whose values are passwords, which may be any word."""
_VALUE = r"""[^\s"'`,;<>(){}\[\]|\\]{8,512}"""

CONTEXT_HINTS = ("pass", "pwd", "secret", "token", "key", "credential", "kennwort", "contrase", "senha")
"""Literals, one of which is in the name of every variable or field with a secret."""
PASSWORD_HINTS = ("pass", "pwd", "pw", "psk", "kennwort", "contrase", "senha")

_AFTER_NAME = (  # of AWS's secret keys
    r"(?i:secret[ _-]?access[ _-]?key)[^\n]{0,24}?(?<![A-Za-z0-9/+=])(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)
_URL = r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<user>[^\s/:@\"'<>`]{0,100}):(?!x-oauth-basic@|x-token-auth@)(?P<secret>[^\s/\"'<>`]{1,256})@(?=[A-Za-z0-9._\[(-])"
_URL_USER = r"\b[a-z][a-z0-9+.-]{1,20}://(?P<secret>[A-Za-z0-9_]{30,100})(?::x-oauth-basic)?@"
_CONNECTION = (
    r"(?i)\b(?:user id|uid|user|username|server|data source|host|hostaddr|database|dbname)\s?=\s?[^;\n=\s]{1,80}[;\s]"
    r"[^\n]{0,200}?"
    r"\b(?:password|pwd)\s?=\s?[\"']?(?P<secret>(?:&[a-z]{2,4};|[^;\"'\s]){3,128})"
)
_HEADER = (
    r"(?i)(?:\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:bearer|basic|token|digest|apikey)\s{1,3})?"
    r"|\bbearer\s{1,3})[\"']?(?P<secret>[A-Za-z0-9._~+/-]{16,4000}=*)"
)
_ASSIGNMENT = (
    rf"(?i){NAMES}[0-9]?[\"'`*_\])\\]{{0,4}}\s{{0,8}}(?:=>|:=|==|=|:|\|)\s{{0,8}}[*_\\]{{0,2}}"
    rf"(?:[\"'`](?P<quoted>[^\"'`\n]{{8,512}}?)\\{{0,2}}[\"'`]|(?P<bare>{_VALUE}))"
)
_OPTION = (
    rf"(?i)(?<![A-Za-z0-9-])--?[a-z-]{{0,30}}{NAMES}\s{{1,3}}[\"']?(?P<secret>{_VALUE})"
    r"|\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,64}:(?P<password>[^\s:\"']{8,128})"
)


def context_formats() -> tuple[SecretFormat, ...]:
    """Formats in which a name, an address, a header or an option marks a value as a secret."""
    return (
        SecretFormat("aws-secret-key", "AWS secret access key", ("secret",), _AFTER_NAME),
        SecretFormat("url-password", "password in a URL", ("@",), _URL, ValueTest.CHOSEN, chosen=True),
        SecretFormat("url-password", "token in a URL", ("@",), _URL_USER, ValueTest.RANDOM),
        SecretFormat(
            "connection-password", "password in a connection string", ("pass", "pwd"), _CONNECTION,
            ValueTest.CHOSEN, chosen=True,
        ),
        SecretFormat(
            "authorization", "authorization header", ("bearer", "authorization"), _HEADER, ValueTest.RANDOM
        ),
        SecretFormat(
            "assigned-secret", "secret value", CONTEXT_HINTS, _ASSIGNMENT, ValueTest.RANDOM, chosen=True
        ),
        SecretFormat(
            "option-secret", "secret on a command line", (*CONTEXT_HINTS, "curl"), _OPTION, ValueTest.RANDOM,
            chosen=True,
        ),
    )  # fmt: skip
