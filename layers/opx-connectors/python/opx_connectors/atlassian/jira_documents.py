"""Converts Jira issues to documents.

Data Center keeps descriptions and comments in wiki markup. Its notation is as in Atlassian's page "Text Formatting
Notation Help"; text that is not markup is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import field

from opx.domain.sources import SourceDocument
from opx.formats.data.replies import Filled, Loose, Named, Names, OddRecordError, Shape, odd, texts_of, utc
from opx.formats.markdown import block, facts, fenced, joined, nested, one_line, reference, relation, table
from opx.formats.metadata import fitting
from opx_connectors.atlassian.access import Keyed
from opx_connectors.atlassian.adf import adf_markdown, mentioned

_CODE = re.compile(r"\{(code|noformat)(?::([^{}\n]{0,300}))?\}")
_HEADING = re.compile(r"h([1-6])\.[ \t]+(.*)")
_ITEM = re.compile(r"([*#]+|-)[ \t]+(.*)")
_PANEL = re.compile(r"\{(panel|quote|info|note|tip|warning)(?::([^{}\n]{0,300}))?\}")
_COLOUR = re.compile(r"\{(?:color|anchor)(?::[^{}\n]{0,300})?\}")
_LINK = re.compile(r"\[([^\[\]|\n]{0,500})\|([^\[\]|\n]{1,2000})(?:\|[^\[\]\n]{0,500})?\]")
_BARE_LINK = re.compile(r"\[(https?://[^\[\]\s]{1,2000})\]")
_MENTION = re.compile(r"\[~(?:accountid:)?([^\[\]\n]{1,200})\]")
_MONOSPACE = re.compile(r"\{\{([^{}\n]{1,1000})\}\}")
_BOLD = re.compile(r"(?<![\w*\\])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])")
_STRIKE = re.compile(r"(?<![\w-])-(?=\S)([^-\n]+?)(?<=\S)-(?![\w-])")
_IMAGE = re.compile(r"!([^!|\s][^!|\n]*?)(?:\|[^!\n]*)?!")


def wiki_markdown(text: str) -> str:
    """Converts wiki markup to Markdown. Code is copied unchanged between fences; an unclosed code macro is not code."""
    parts: list[str] = []
    at = 0
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    while opening := _CODE.search(text, at):
        closing = f"{{{opening[1]}}}"
        end = text.find(closing, opening.end())
        if end < 0:  # nor does anything close a later one
            break
        code = text[opening.end() : end]
        parts += [_prose(text[at : opening.start()]), fenced(code, _language(opening[1], opening[2] or ""))]
        at = end + len(closing)
    parts.append(_prose(text[at:]))
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def _language(kind: str, parameters: str) -> str:
    first = parameters.partition("|")[0]
    return first if kind == "code" and "=" not in first else ""


def _prose(text: str) -> str:
    lines: list[str] = []
    rows: list[list[str]] = []
    for line in text.split("\n"):
        if line.lstrip().startswith("|"):
            rows.append(_cells(line))
            continue
        if rows:
            lines += ["", table(rows), ""]
            rows = []
        lines.append(_line(line))
    return "\n".join([*lines, "", table(rows)] if rows else lines)


def _cells(line: str) -> list[str]:
    """Cells of `||head||head||` or `|cell|cell|`; a link's own bar does not end a cell."""
    inner = _LINK.sub(_link, line.strip()).replace("||", "|").strip("|")
    return [_inline(cell) for cell in inner.split("|")]


def _line(line: str) -> str:
    heading = _HEADING.match(line.lstrip())
    if heading:
        return "#" * int(heading[1]) + " " + _inline(heading[2])
    item = _ITEM.match(line.lstrip())
    if item:
        return "  " * (len(item[1]) - 1) + ("1. " if item[1][-1] == "#" else "- ") + _inline(item[2])
    if line.startswith("bq. "):
        return "> " + _inline(line[4:])
    return _inline(line)


def _inline(text: str) -> str:
    text = _PANEL.sub(_panel, _COLOUR.sub("", text))
    text = _MONOSPACE.sub(r"`\1`", text)
    text = _MENTION.sub(r"@\1", text)
    text = _BARE_LINK.sub(r"\1", _LINK.sub(_link, text))
    text = _IMAGE.sub(r"[image: \1]", text)
    return _STRIKE.sub(r"~~\1~~", _BOLD.sub(r"**\1**", text))


def _link(match: re.Match[str]) -> str:
    label, address = match[1].strip(), match[2].strip()
    if not address.startswith(("http://", "https://")):
        return label or address
    return f"{label} ({address})" if label and label != address else address


def _panel(match: re.Match[str]) -> str:
    """Title of a panel; its end is dropped, as the same macro opens and closes it."""
    title = re.search(r"title=([^|}]*)", match[2] or "")
    return f"**{title[1].strip()}**" if title and title[1].strip() else ""


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
"""Jira's default link types, mapped to edges; others keep Jira's name."""


class Person(Shape, frozen=True, rename="camel"):
    display_name: Loose[str] = ""
    name: Loose[str] = ""

    @property
    def called(self) -> str:
        return one_line(self.display_name or self.name)


class IssueComment(Shape, frozen=True):
    created: Filled
    author: Loose[Person] = Person()
    body: Any = None

    @property
    def time(self) -> str:
        return utc(self.created, "created")


class _LinkType(Shape, frozen=True):
    name: Loose[str] = ""
    outward: Loose[str] = ""


class _Link(Shape, frozen=True, rename="camel"):
    type: Loose[_LinkType] = _LinkType()
    outward_issue: Loose[Keyed] = Keyed()
    inward_issue: Loose[Keyed] = Keyed()


class _Fields(Shape, frozen=True):
    created: Filled
    updated: Filled
    summary: Loose[str] = ""
    description: Any = None
    environment: Any = None
    status: Loose[Named] = Named()
    resolution: Loose[Named] = Named()
    resolutiondate: Loose[str] = ""
    priority: Loose[Named] = Named()
    issuetype: Loose[Named] = Named()
    labels: Names = ()
    components: Names = ()
    versions: Names = ()
    fix_versions: Names = field(default=(), name="fixVersions")
    assignee: Loose[Person] = Person()
    reporter: Loose[Person] = Person()
    parent: Loose[Keyed] = Keyed()
    subtasks: tuple[Loose[Keyed], ...] = ()
    issuelinks: tuple[Loose[_Link], ...] = ()


class _Issue(Shape, frozen=True):
    key: Filled
    fields: _Fields


class _ChoiceBelow(Shape, frozen=True):
    value: Filled


class _Choice(Shape, frozen=True, rename="camel"):
    """A chosen value: an option of a cascade with the one below it, a person, a version and the like."""

    value: Loose[str] = ""
    display_name: Loose[str] = ""
    name: Loose[str] = ""
    child: _ChoiceBelow | None = None


def issue_document(
    issue: Any, *, comments: Sequence[Any], more: int, extra: Mapping[str, str], root: str
) -> SourceDocument:
    """Converts an issue; if it is resolved, the resolution comes first. `comments` are ordered newest first, `more`
    counts those left out. Raises `OddRecordError`."""
    found = odd(_Issue, issue)
    if "summary" not in issue["fields"]:  # an empty one is an issue's; a missing one is another format
        raise OddRecordError("the field 'fields.summary' is missing; the source's format may have changed")
    key, fields = found.key, found.fields
    written = [odd(IssueComment, each) for each in comments]
    title = f"{key}: {one_line(fields.summary)}" if fields.summary.strip() else key
    resolved = fields.resolution.name
    shown = [_comment(each) for each in written]
    content = joined(
        [
            f"# {title}",
            _facts(fields),
            *(_resolution(fields, resolved, shown[:1]) if resolved else ()),
            _section("Description", field_markdown(fields.description, "description")),
            _section("Environment", field_markdown(fields.environment, "environment")),
            *(_section(one_line(name), _extra(issue["fields"].get(own), own)) for own, name in extra.items()),
            _comments(shown[1:] if resolved else shown, more),
            block(_relations(key, fields, written)),
        ]
    )
    return SourceDocument(key, content, _metadata(key, title, fields, root))


def _metadata(key: str, title: str, fields: _Fields, root: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "title": title,
        "source_uri": f"{root}/browse/{key}",
        "tags": fitting([*texts_of(fields.labels), *texts_of(fields.components)]),
        "created_at": utc(fields.created, "fields.created"),
        "last_updated": utc(fields.updated, "fields.updated"),
        "author": fields.reporter.called,
        "severity": fields.priority.name,
    }
    return {name: value for name, value in metadata.items() if value}


def _facts(fields: _Fields) -> str:
    return facts(
        [
            ("Type", fields.issuetype.name),
            ("Status", fields.status.name),
            ("Resolution", fields.resolution.name),
            ("Priority", fields.priority.name),
            ("Assignee", fields.assignee.called),
            ("Reporter", fields.reporter.called),
            ("Components", ", ".join(texts_of(fields.components))),
            ("Labels", ", ".join(texts_of(fields.labels))),
            ("Affected versions", ", ".join(texts_of(fields.versions))),
            ("Fixed in", ", ".join(texts_of(fields.fix_versions))),
            ("Parent", fields.parent.key),
        ]
    )


def _resolution(fields: _Fields, resolved: str, last: Sequence[str]) -> Iterator[str]:
    """The resolution and the last comment, which often explains it."""
    when = utc(fields.resolutiondate, "fields.resolutiondate")[:10] if fields.resolutiondate.strip() else ""
    yield "## Resolution\n\n" + (f"{one_line(resolved)} ({when})" if when else one_line(resolved))
    yield from last


def _comments(shown: Sequence[str], more: int) -> str:
    if not shown:
        return ""
    left_out = [f"{more:,} older comments are left out."] if more > 0 else []
    return "\n\n".join(["## Comments, newest first", *shown, *left_out])


def _comment(comment: IssueComment) -> str:
    who, when = comment.author.called or "unknown", comment.time[:10]
    return f"### Comment of {who}, {when}\n\n{nested(field_markdown(comment.body, 'body'), 3)}"


def _section(title: str, markdown: str) -> str:
    return f"## {title}\n\n{nested(markdown, 2)}" if markdown.strip() else ""


def field_markdown(value: Any, of: str) -> str:
    """Markdown of a field with text: an Atlassian document in the cloud, wiki markup in-house. Raises `OddRecordError`."""
    if value is None:
        return ""
    if isinstance(value, str):
        return wiki_markdown(value)
    if isinstance(value, Mapping) and value.get("type") == "doc":
        return adf_markdown(value)
    raise OddRecordError(f"expected a string or an Atlassian document at {of!r}")


def _extra(value: Any, of: str) -> str:
    """Markdown of a custom field: text, or its chosen, entered or picked values, one per line."""
    if isinstance(value, list):
        chosen = [_chosen(each, of) for each in value]
        return "\n".join(f"- {each}" for each in chosen) if len(chosen) > 1 else "".join(chosen)
    if isinstance(value, Mapping) and value.get("type") != "doc":
        return _chosen(value, of)
    if isinstance(value, bool | int | float):
        return _chosen(value, of)
    return field_markdown(value, of)


def _chosen(value: Any, of: str) -> str:
    """Text of a choice (of a cascade with the one below it), a person, a version and the like, a label, a number."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return str(int(value)) if value == value // 1 else str(value)
    if isinstance(value, str):
        return one_line(value)
    choice = odd(_Choice, value if isinstance(value, dict) else {})
    found = one_line(choice.value or choice.display_name or choice.name)
    if not found:
        raise OddRecordError(f"expected a string, a number, choices or people at {of!r}")
    return f"{found} > {one_line(choice.child.value)}" if choice.child else found


def _relations(key: str, fields: _Fields, comments: Sequence[IssueComment]) -> Iterator[str]:
    own = reference("jira", key)
    yield relation(own, "ASSIGNED_TO", reference("user", fields.assignee.called))
    yield relation(own, "PARENT", reference("jira", fields.parent.key))
    for subtask in fields.subtasks:
        yield relation(reference("jira", subtask.key), "PARENT", own)
    for link in fields.issuelinks:
        kind = link.type.name
        edge = _EDGES.get(kind.lower(), link.type.outward or kind)
        yield relation(own, edge, reference("jira", link.outward_issue.key))
        yield relation(reference("jira", link.inward_issue.key), edge, own)
    for written in (fields.description, *(each.body for each in comments)):
        for name in mentioned(written):
            yield relation(own, "MENTIONS", reference("user", name))
