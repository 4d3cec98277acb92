"""Converts Jira's webhooks ("Webhooks" of Atlassian's developer documentation) to documents: issues with the comments
that the delivery has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from opx.connectors.deliveries import (
    DocumentUpdate,
    NamedField,
    PayloadError,
    document,
    metadata,
    moment,
    part,
    read_payload,
)
from opx.connectors.webhook_formats import SAMPLE_TITLE, HubSignature, WebhookFormat
from opx.formats.data.replies import Loose, NeededWords, OddRecordError, Shape, Words
from opx_connectors.atlassian.jira_documents import field_markdown


class _Event(Shape, frozen=True, rename="camel"):
    webhook_event: NeededWords


class _Id(Shape, frozen=True):
    id: NeededWords


class _OfIssue(Shape, frozen=True):
    issue: _Id
    timestamp: Any = None


class _Person(Shape, frozen=True, rename="camel"):
    display_name: Words = ""


class _Comment(Shape, frozen=True):
    author: Loose[_Person] = _Person()
    created: Words = ""
    body: Any = None


class _Comments(Shape, frozen=True):
    comments: tuple[_Comment, ...] = ()


class _Fields(Shape, frozen=True):
    summary: NeededWords
    created: Any = None
    updated: Any = None
    description: Any = None
    environment: Any = None
    issuetype: Loose[NamedField] = NamedField()
    status: Loose[NamedField] = NamedField()
    resolution: Loose[NamedField] = NamedField()
    priority: Loose[NamedField] = NamedField()
    components: tuple[NamedField, ...] = ()
    labels: Loose[tuple[Loose[str], ...]] = ()
    reporter: Loose[_Person] = _Person()
    assignee: Loose[_Person] = _Person()
    comment: Loose[_Comments] = _Comments()


class _Issue(Shape, frozen=True):
    key: NeededWords
    fields: _Fields
    address: Words = field(default="", name="self")


def event_of(payload: Mapping[str, Any]) -> str:
    """Event name, such as `jira:issue_updated`."""
    return read_payload(_Event, payload).webhook_event


def changes_of(payload: Mapping[str, Any]) -> list[DocumentUpdate]:
    """Returns the issue in its current state; nothing for events about anything else."""
    event = event_of(payload)
    if not event.startswith("jira:issue_"):
        return []
    delivery = read_payload(_OfIssue, payload)
    key = f"issues/{part(delivery.issue.id)}"  # which stays when the issue moves to another project
    time = moment(delivery.timestamp, "timestamp")
    if event == "jira:issue_deleted":
        return [DocumentUpdate(key=key, time=time, deleted=True)]
    return [_issue(read_payload(_Issue, payload["issue"]), key, time)]


def _issue(issue: _Issue, key: str, time: str) -> DocumentUpdate:
    fields = issue.fields
    created = moment(fields.created, "issue.fields.created")
    updated = moment(fields.updated, "issue.fields.updated")
    components = [each.name for each in fields.components]
    facts = [
        ("Issue", issue.key),
        ("Type", fields.issuetype.name),
        ("Status", fields.status.name),
        ("Resolution", fields.resolution.name),
        ("Priority", fields.priority.name),
        ("Components", ", ".join(components)),
        ("Reporter", fields.reporter.display_name),
        ("Assignee", fields.assignee.display_name),
    ]
    sections = [
        ("Description", _prose(fields.description, "description")),
        ("Environment", _prose(fields.environment, "environment")),
    ]
    for comment in fields.comment.comments:
        who = comment.author.display_name or "somebody"
        sections.append((f"Comment of {who}, {comment.created}", _prose(comment.body, "body")))
    return DocumentUpdate(
        key=key,
        time=time or updated,
        text=document(f"{issue.key}: {fields.summary}", facts, sections),
        metadata=metadata(
            tags=[*fields.labels, fields.status.name],
            source_uri=_browse(issue.address, issue.key),
            created=created,
            updated=updated or time,
            author=fields.reporter.display_name,
            severity=fields.priority.name,
            services=components,
        ),
    )


def _browse(api: str, name: str) -> str:
    """`https://x.atlassian.net/rest/api/2/issue/1` -> the page that people see."""
    site, found, _ = api.partition("/rest/")
    return f"{site}/browse/{name}" if found else ""


def _prose(value: Any, of: str) -> str:
    """Markdown of a field, as of the connector. Raises `PayloadError`."""
    try:
        return field_markdown(value, of)
    except OddRecordError as exc:
        raise PayloadError(f"{of}: {exc}") from exc


FORMAT = WebhookFormat(
    lambda delivery: event_of(delivery.json()),
    lambda delivery: changes_of(delivery.json()),
    # "Secure admin webhooks" of Atlassian's documentation: the form of WebSub, method=signature.
    HubSignature("x-hub-signature", b"sha256="),
    {
        "webhookEvent": "jira:issue_created",
        "timestamp": 1577836800000,
        "issue": {"id": "1", "key": "TEST-1", "fields": {"summary": SAMPLE_TITLE}},
    },
    events=("jira:issue_created", "jira:issue_updated", "jira:issue_deleted"),
)
