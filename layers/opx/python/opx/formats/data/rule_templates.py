"""Reads alerting rules line by line from a template (Helm, Jinja) that is no YAML until it is rendered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

NOTE = (
    "a template and no YAML: its alerts are read line by line; render it first (`helm template`) for all that they say"
)

_RULE = re.compile(r"^(?P<indent>[ \t]*)-[ \t]+alert:[ \t]*(?P<name>.*)$")
_FIELD = re.compile(
    r"^[ \t]+(?P<name>severity|summary|description|runbook_url|runbook|message|expr):[ \t]*(?P<value>[^|>\s].*)$"
)
_QUOTES = "\"'` "


def rules_by_line(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The line and the fields of each rule that begins with `- alert: NAME`: those whose value is on their line."""
    fields: dict[str, str] = {}
    line_of = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if rule := _RULE.match(line):
            if fields:
                yield line_of, fields
            line_of, fields = number, {"alert": rule["name"].strip(_QUOTES)}
        elif fields and (field := _FIELD.match(line)):
            fields.setdefault(field["name"], field["value"].strip(_QUOTES))
    if fields:
        yield line_of, fields
