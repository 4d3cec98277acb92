"""Jira ("Webhooks" of Atlassian's developer documentation): issues, with the comments that the delivery has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.sources.shapes import OddRecordError
from opx.sources.workplace.adf import adf_markdown
from opx.webhooks.errors import PayloadError
from opx.webhooks.payloads.shape import Change, document, metadata, moment, needed, part, rows_at, text_at, value_at


def event_of(payload: Mapping[str, Any]) -> str:
    """Such as `jira:issue_updated`."""
    return needed(payload, "webhookEvent")


def changes_of(payload: Mapping[str, Any]) -> list[Change]:
    """The issue as it is now; nothing for events about anything else."""
    event = event_of(payload)
    if not event.startswith("jira:issue_"):
        return []
    issue = value_at(payload, "issue")
    key = f"issues/{part(needed(issue, 'id'))}"  # which stays when the issue moves to another project
    time = moment(value_at(payload, "timestamp"), "timestamp")
    if event == "jira:issue_deleted":
        return [Change(key=key, time=time, deleted=True)]
    return [_issue(issue, key, time)]


def _issue(issue: Mapping[str, Any], key: str, time: str) -> Change:
    fields, name = value_at(issue, "fields"), needed(issue, "key")
    created = moment(value_at(fields, "created"), "issue.fields.created")
    updated = moment(value_at(fields, "updated"), "issue.fields.updated")
    status, priority = text_at(fields, "status", "name"), text_at(fields, "priority", "name")
    components = [text_at(each, "name") for each in rows_at(fields, "components")]
    labels = value_at(fields, "labels")
    facts = [
        ("Issue", name),
        ("Type", text_at(fields, "issuetype", "name")),
        ("Status", status),
        ("Resolution", text_at(fields, "resolution", "name")),
        ("Priority", priority),
        ("Components", ", ".join(components)),
        ("Reporter", text_at(fields, "reporter", "displayName")),
        ("Assignee", text_at(fields, "assignee", "displayName")),
    ]
    sections = [("Description", _prose(fields, "description")), ("Environment", _prose(fields, "environment"))]
    for comment in rows_at(fields, "comment", "comments"):
        who = text_at(comment, "author", "displayName")
        sections.append((f"Comment of {who or 'somebody'}, {text_at(comment, 'created')}", _prose(comment, "body")))
    return Change(
        key=key,
        time=time or updated,
        text=document(f"{name}: {needed(fields, 'summary')}", facts, sections),
        metadata=metadata(
            tags=[*(str(label) for label in labels if isinstance(label, str)), status]
            if isinstance(labels, list)
            else [status],
            source_uri=_browse(text_at(issue, "self"), name),
            created=created,
            updated=updated or time,
            author=text_at(fields, "reporter", "displayName"),
            severity=priority,
            services=components,
        ),
    )


def _browse(api: str, name: str) -> str:
    """`https://x.atlassian.net/rest/api/2/issue/1` -> the page that people see."""
    site, found, _ = api.partition("/rest/")
    return f"{site}/browse/{name}" if found else ""


def _prose(fields: Any, name: str) -> str:
    """A text, or a document in Atlassian's format. Raises `PayloadError` for anything else."""
    found = value_at(fields, name)
    if not isinstance(found, Mapping):
        return text_at(fields, name)
    try:
        return adf_markdown(found)
    except OddRecordError as exc:
        raise PayloadError(f"{name}: {exc}") from exc
