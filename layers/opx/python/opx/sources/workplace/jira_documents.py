"""An issue of Jira as a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opx.domain.sources import SourceDocument
from opx.ingestion.metadata import fitting
from opx.sources.markdown import facts, joined, nested, one_line
from opx.sources.relationships import block, reference, relation
from opx.sources.shapes import OddRecordError, items, maybe_text, member, moment, names, text
from opx.sources.workplace.adf import adf_markdown, mentioned
from opx.sources.workplace.wiki_markup import wiki_markdown

FIELDS = (
    "summary",
    "description",
    "environment",
    "status",
    "resolution",
    "resolutiondate",
    "priority",
    "issuetype",
    "labels",
    "components",
    "fixVersions",
    "versions",
    "assignee",
    "reporter",
    "created",
    "updated",
    "parent",
    "subtasks",
    "issuelinks",
    "comment",
)

_EDGES = {
    "relates": "RELATED_TO",
    "blocks": "BLOCKS",
    "duplicate": "DUPLICATES",
    "cloners": "CLONES",
    "problem/incident": "CAUSES",
}
"""Kinds of links that Jira comes with, and the edges that they are; others are called as Jira calls them."""


def issue_document(
    issue: Any, *, comments: Sequence[Any], more: int, extra: Mapping[str, str], root: str
) -> SourceDocument:
    """The issue; of what is resolved, how it was resolved comes first. `comments` begin with the newest, `more` are
    left out. Raises `OddRecordError`."""
    key, fields = text(issue, "key"), member(issue, "fields")
    title = f"{key}: {one_line(text(fields, 'summary'))}"
    resolved = maybe_text(fields, "resolution.name")
    told = [_comment(each) for each in comments]
    content = joined(
        [
            f"# {title}",
            _facts(fields),
            *(_resolution(fields, resolved, told[:1]) if resolved else ()),
            _section("Description", _markdown(fields, "description")),
            _section("Environment", _markdown(fields, "environment")),
            *(_section(one_line(name), _extra(fields, field)) for field, name in extra.items()),
            _comments(told[1:] if resolved else told, more),
            block(_relations(key, fields, comments)),
        ]
    )
    return SourceDocument(key, content, _metadata(key, title, fields, root))


def _metadata(key: str, title: str, fields: Any, root: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "title": title,
        "source_uri": f"{root}/browse/{key}",
        "tags": fitting([*names(fields, "labels"), *names(fields, "components")]),
        "created_at": moment(fields, "created"),
        "last_updated": moment(fields, "updated"),
        "author": _person(member(fields, "reporter")),
        "severity": maybe_text(fields, "priority.name"),
    }
    return {name: value for name, value in metadata.items() if value}


def _facts(fields: Any) -> str:
    return facts(
        [
            ("Type", maybe_text(fields, "issuetype.name")),
            ("Status", maybe_text(fields, "status.name")),
            ("Resolution", maybe_text(fields, "resolution.name")),
            ("Priority", maybe_text(fields, "priority.name")),
            ("Assignee", _person(member(fields, "assignee"))),
            ("Reporter", _person(member(fields, "reporter"))),
            ("Components", ", ".join(names(fields, "components"))),
            ("Labels", ", ".join(names(fields, "labels"))),
            ("Affected versions", ", ".join(names(fields, "versions"))),
            ("Fixed in", ", ".join(names(fields, "fixVersions"))),
            ("Parent", maybe_text(fields, "parent.key")),
        ]
    )


def _resolution(fields: Any, resolved: str, last: Sequence[str]) -> Iterator[str]:
    """How it ended, and what was said last, which often tells how."""
    when = moment(fields, "resolutiondate")[:10] if maybe_text(fields, "resolutiondate") else ""
    yield "## Resolution\n\n" + (f"{one_line(resolved)} ({when})" if when else one_line(resolved))
    yield from last


def _comments(told: Sequence[str], more: int) -> str:
    if not told:
        return ""
    left_out = [f"{more:,} older comments are left out."] if more > 0 else []
    return "\n\n".join(["## Comments, newest first", *told, *left_out])


def _comment(comment: Any) -> str:
    who, when = _person(member(comment, "author")) or "unknown", moment(comment, "created")[:10]
    return f"### Comment of {who}, {when}\n\n{nested(_markdown(comment, 'body'), 3)}"


def _section(title: str, markdown: str) -> str:
    return f"## {title}\n\n{nested(markdown, 2)}" if markdown.strip() else ""


def _markdown(record: Any, field: str) -> str:
    """Text of either kind: Atlassian documents in the cloud, wiki markup in-house."""
    value = member(record, field)
    if value is None:
        return ""
    if isinstance(value, str):
        return wiki_markdown(value)
    if isinstance(value, Mapping) and value.get("type") == "doc":
        return adf_markdown(value)
    raise OddRecordError(f"expected a text or an Atlassian document at {field!r}")


def _extra(fields: Any, field: str) -> str:
    """A field of a project's own: text, or whatever was chosen, entered or picked, one a line."""
    value = member(fields, field)
    if isinstance(value, list):
        told = [_chosen(each, field) for each in value]
        return "\n".join(f"- {each}" for each in told) if len(told) > 1 else "".join(told)
    if isinstance(value, Mapping) and value.get("type") != "doc":
        return _chosen(value, field)
    if isinstance(value, bool | int | float):
        return _chosen(value, field)
    return _markdown(fields, field)


def _chosen(value: Any, field: str) -> str:
    """A choice (of a cascade with the one below it), a person, a version and the like, a label, a number."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return str(int(value)) if value == value // 1 else str(value)
    if isinstance(value, str):
        return one_line(value)
    words = [maybe_text(value, name) for name in ("value", "displayName", "name")]
    found = one_line(next(filter(None, words), ""))
    if not found:
        raise OddRecordError(f"expected a text, a number, choices or people at {field!r}")
    return f"{found} > {one_line(text(value, 'child.value'))}" if member(value, "child") else found


def _person(person: Any) -> str:
    return one_line(maybe_text(person, "displayName") or maybe_text(person, "name"))


def _relations(key: str, fields: Any, comments: Sequence[Any]) -> Iterator[str]:
    own = reference("jira", key)
    yield relation(own, "ASSIGNED_TO", reference("user", _person(member(fields, "assignee"))))
    yield relation(own, "PARENT", reference("jira", maybe_text(fields, "parent.key")))
    for subtask in items(fields, "subtasks"):
        yield relation(reference("jira", maybe_text(subtask, "key")), "PARENT", own)
    for link in items(fields, "issuelinks"):
        kind = maybe_text(link, "type.name")
        edge = _EDGES.get(kind.lower(), maybe_text(link, "type.outward") or kind)
        yield relation(own, edge, reference("jira", maybe_text(link, "outwardIssue.key")))
        yield relation(reference("jira", maybe_text(link, "inwardIssue.key")), edge, own)
    for written in (member(fields, "description"), *(member(each, "body") for each in comments)):
        for name in mentioned(written):
            yield relation(own, "MENTIONS", reference("user", name))
