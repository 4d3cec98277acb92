"""Appointments in messages (iCalendar, RFC 5545) as lists of what, when and where."""

from __future__ import annotations

import re

from opx.extraction.markdown import one_line, plain

MAX_EVENTS = 20
_EVENT, _END_OF_FIELDS = "BEGIN:VEVENT", re.compile("END:VEVENT|BEGIN:VALARM")
_FIELD = re.compile(r"(?im)^(SUMMARY|DTSTART|DTEND|LOCATION|DESCRIPTION)((?:;[^:;\n\"]*(?:\"[^\"\n]*\")?)*):(.*)$")
_FOLDED = re.compile(r"\n[ \t]")
_ESCAPED = re.compile(r"\\([nN,;\\])")
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?\Z")
_ZONE = re.compile(r";TZID=\"?([^;\":]+)", re.IGNORECASE)
_LABELS = {"SUMMARY": "Appointment", "DTSTART": "Start", "DTEND": "End", "LOCATION": "Place"}


def appointments(text: str, *, described: bool) -> str:
    """The events, "" if there are none. `described`: with what they say about themselves at length."""
    unfolded = _FOLDED.sub("", text.replace("\r\n", "\n"))
    events = [_END_OF_FIELDS.split(event, maxsplit=1)[0] for event in unfolded.split(_EVENT)[1 : MAX_EVENTS + 1]]
    return "\n\n".join(filter(None, (_event(event, described=described) for event in events)))


def _event(text: str, *, described: bool) -> str:
    fields: dict[str, str] = {}
    for name, parameters, value in _FIELD.findall(text):
        fields.setdefault(name.upper(), _moment(value, parameters) if name.upper().startswith("DT") else _text(value))
    lines = [f"- {label}: {one_line(fields[name])}" for name, label in _LABELS.items() if fields.get(name, "").strip()]
    description = plain(fields.get("DESCRIPTION", "").strip()) if described else ""
    return "\n\n".join(filter(None, ["\n".join(lines), description]))


def _text(value: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] in "nN" else match[1], value)


def _moment(value: str, parameters: str) -> str:
    match = _MOMENT.match(value.strip())
    if not match:
        return value
    year, month, day, hour, minute, utc = match.groups()
    zone = _ZONE.search(parameters)
    where = " UTC" if utc else f" {zone[1]}" if zone else ""
    return f"{year}-{month}-{day}" + (f" {hour}:{minute}{where}" if hour else "")
