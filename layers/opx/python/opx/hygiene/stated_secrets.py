"""Formats in which a file, a command or a device states that a value is a password, so that it may be any word.

The table is `stated_secrets.txt`, whose head explains its columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from opx.hygiene.secret_formats import PASSWORD_HINTS, PASSWORDS, SecretFormat, ValueTest

_QUOTED = r"""'(?P<qa>[^'\n]{2,128})'|\\?"(?P<qb>[^"\n]{2,128}?)\\?\""""
_PARTS = {
    "{KEY}": rf"(?:\b|_){PASSWORDS}\d?",
    "{CAMEL}": (
        r"(?:[a-z0-9_.\]]|\b)(?-i:Pass(?:word|wd|phrase)?|Pwd|PASS(?:WORD|WD|PHRASE)?|password|passwd|passphrase)\d?"
    ),
    "{OF}": r"(?:\s(?:of|for|on|at|is for|von|für|zum|de|del|du|per)\s[^\n:.;,]{1,40}?)?",
    "{PROSE}": PASSWORDS.replace("|pass|", "|"),
    "{PASSWORDS}": PASSWORDS,
    "{quoted}": f"(?:{_QUOTED})",
    "{argument}": rf"""(?:{_QUOTED}|(?P<qc>[^\s'"`|&<>();,]{{2,128}}))""",
}
"""The last word of a name, whatever stands before it; a name that capitals divide; a thing that a password is for; names in
sentences, where "pass" is a verb; and values."""

BEHIND: dict[str, tuple[str, ...]] = {
    " -p": (
        "mysql", "mariadb", "zip ", "7z", "mongo", "sqlcmd", "bcp", "osql", "ipmitool", "racadm", "ipmi-", "psexec", "plink",
        "pscp", "putty", "ncftp", "cqlsh", "influx", "nodetool", "ilorest", "beeline", "cypher-shell", "couchbase-cli",
        "esxcli", "mosquitto_", "isql", "tsql", "aql ", "impala-shell",
    ),
    '"d': ('"p"', '"q"', '"dp"', '"dq"', '"qi"'),
}  # fmt: skip
"""Hints of patterns that match only where the literal before them is near, so that they are searched only with it."""


@cache
def stated_formats() -> tuple[SecretFormat, ...]:
    """The formats in the order in which they are tried: those whose form is enough come first."""
    return tuple(sorted(_read(), key=lambda form: form.judgement is not ValueTest.FORM))


@cache
def first_stated() -> int:
    """Number of the formats that are tried before those of names in general: assignments don't end at `&` in a query."""
    certain = sum(form.judgement is ValueTest.FORM for form in stated_formats())
    return certain + sum(form.regex.startswith("(?i)[?&") for form in stated_formats())


def _read() -> Iterator[SecretFormat]:
    kind = label = ""
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line.startswith("== "):
            kind, label = line.removeprefix("== ").split(": ")
        elif line and not line.startswith("#"):
            judgement, hints, pattern = line.split("\t")
            for name, part in _PARTS.items():
                pattern = pattern.replace(name, part)
            hints = hints.replace("{P}", "|".join(PASSWORD_HINTS))
            chosen = judgement != ValueTest.FORM
            yield SecretFormat(kind, label, tuple(hints.split("|")), pattern, ValueTest(judgement), chosen=chosen)
