"""Converts GitHub's webhooks ("Webhook events and payloads" of its documentation) to documents: issues and discussions with
their comments, pushes, releases, deployments.

The header that names the event isn't signed, so that it is trusted only as far as the body confirms it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from opx.connectors.deliveries import (
    Delivery,
    DocumentUpdate,
    NamedField,
    PayloadError,
    document,
    metadata,
    moment,
    one_line,
    part,
    read_payload,
)
from opx.connectors.webhook_formats import SAMPLE_TIME, SAMPLE_TITLE, HubSignature, WebhookFormat
from opx.domain.record import replace
from opx.formats.data.replies import Loose, NeededWords, Shape, Words
from opx_connectors.forums.threads import section, thread
from opx_connectors.github.issues import GitHubComment, is_bots, post_of

EVENT_HEADER = "x-github-event"
MAX_COMMITS = 50
_MAX_FILES = 20
_GONE = ("deleted", "transferred")
_FORM = b"payload="

_SHAPES = {
    "issues": (("issue",), ("comment",)),
    "issue_comment": (("issue", "comment"), ()),
    "discussion": (("discussion",), ("comment",)),
    "discussion_comment": (("discussion", "comment"), ()),
    "release": (("release",), ()),
    "deployment_status": (("deployment_status", "deployment"), ()),
    "push": (("ref", "after", "commits"), ("pull_request",)),
}
"""Fields that an event's body must have, and must not have: a deleted comment must not pass for a deleted issue."""


class _Repository(Shape, frozen=True):
    full_name: NeededWords


class _Delivery(Shape, frozen=True):
    repository: _Repository
    action: Words = ""


class _User(Shape, frozen=True):
    login: Words = ""


class _Mark(Shape, frozen=True):
    """The part of an issue or discussion that its deletion has, too."""

    number: NeededWords
    updated_at: NeededWords


class _Discussed(_Mark, frozen=True):
    title: NeededWords
    body: Words = ""
    html_url: Words = ""
    created_at: Any = None
    user: Loose[_User] = _User()
    labels: tuple[NamedField, ...] = ()
    state: Words = ""
    state_reason: Words = ""
    closed_at: Words = ""
    category: Loose[NamedField] = NamedField()


class _Comment(GitHubComment, frozen=True, kw_only=True):
    id: NeededWords
    created_at: NeededWords
    updated_at: NeededWords
    body: Words = ""


class _Release(Shape, frozen=True):
    """The part of a release that its deletion has, too."""

    id: NeededWords
    created_at: Any = None
    published_at: Any = None
    updated_at: Any = None
    draft: Any = None


class _Published(_Release, frozen=True, kw_only=True):
    tag_name: NeededWords
    name: Words = ""
    body: Words = ""
    html_url: Words = ""
    prerelease: Any = None
    author: Loose[_User] = _User()


class _Status(Shape, frozen=True):
    state: NeededWords
    environment: Words = ""
    description: Words = ""
    log_url: Words = ""
    target_url: Words = ""
    created_at: Any = None
    updated_at: Any = None


class _Deployment(Shape, frozen=True):
    id: NeededWords
    environment: Words = ""
    description: Words = ""
    ref: Words = ""
    sha: Words = ""
    created_at: Any = None
    creator: Loose[_User] = _User()


class _Deployed(Shape, frozen=True):
    deployment_status: _Status
    deployment: _Deployment


class _Commit(Shape, frozen=True):
    id: NeededWords
    message: Words = ""
    author: Loose[NamedField] = NamedField()
    added: Loose[tuple[Loose[str], ...]] = ()
    modified: Loose[tuple[Loose[str], ...]] = ()
    removed: Loose[tuple[Loose[str], ...]] = ()


class _Head(Shape, frozen=True):
    message: Words = ""
    timestamp: Any = None


class _Push(Shape, frozen=True):
    ref: NeededWords
    after: NeededWords
    head_commit: _Head
    commits: tuple[_Commit, ...] = ()
    compare: Words = ""
    forced: Any = None
    pusher: Loose[NamedField] = NamedField()


def event_of(delivery: Delivery) -> str:
    """Event type, such as `issues`. Raises `PayloadError` without the header."""
    event = delivery.header(EVENT_HEADER).strip().decode("utf-8", "replace")
    if not event:
        raise PayloadError("the delivery has no header X-GitHub-Event")
    return event


def payload_of(delivery: Delivery) -> dict[str, Any]:
    """Returns the body's object, which GitHub sends as JSON or as the field `payload` of a form: "Content type" of a
    webhook's settings. Raises `PayloadError`."""
    if not delivery.body.startswith(_FORM):  # no JSON begins so; the header that names the type isn't signed
        return delivery.json()
    try:
        fields = parse_qsl(delivery.body.decode("ascii"), max_num_fields=1, strict_parsing=True, errors="strict")
    except ValueError as exc:
        raise PayloadError("the body is not a form with one field, payload") from exc
    return replace(delivery, headers={}, body=fields[0][1].encode("utf-8") if fields else b"").json()


def check_shape(event: str, payload: Mapping[str, Any]) -> None:
    """Raises `PayloadError` if the body is not of the event that the header names."""
    present, absent = _SHAPES[event]
    if not all(name in payload for name in present) or any(name in payload for name in absent):
        raise PayloadError(f"the body is not that of the event {event}")


def changes_of(event: str, payload: Mapping[str, Any]) -> list[DocumentUpdate]:
    """Returns the document updates of an event; none for unsupported events. Raises `PayloadError`."""
    if event not in _READERS:
        return []
    check_shape(event, payload)
    repository = read_payload(_Delivery, payload).repository.full_name
    return _READERS[event](payload, repository, "/".join(part(name) for name in repository.split("/")))


def _discussed(field: str, folder: str) -> Callable[[Mapping[str, Any], str, str], list[DocumentUpdate]]:
    def read(payload: Mapping[str, Any], _repository: str, prefix: str) -> list[DocumentUpdate]:
        mark = read_payload(_Mark, payload[field])
        if "pull_request" in payload[field]:  # which the issues connector leaves out, too
            return []
        key = f"{prefix}/{folder}/{part(mark.number)}"
        time = moment(mark.updated_at, f"{field}.updated_at")
        is_gone = read_payload(_Delivery, payload).action in _GONE
        if is_gone and "comment" not in payload:
            return [DocumentUpdate(key=key, time=time, deleted=True)]
        found = read_payload(_Discussed, payload[field])
        known = metadata(
            tags=[label.name for label in found.labels],
            source_uri=found.html_url,
            created=moment(found.created_at, f"{field}.created_at"),
            updated=time,
            author=found.user.login,
        )
        text = thread(found.title, _state(found), found.body, ())
        posts = _post(payload["comment"], deleted=is_gone) if "comment" in payload else {}
        return [DocumentUpdate(key=key, time=time, text=text, metadata=known, posts=posts)]

    return read


def _post(comment: Any, *, deleted: bool) -> dict[str, tuple[str, str]]:
    """A comment in the form of the issues connector; none for one of a bot."""
    found = read_payload(_Comment, comment)
    if is_bots(comment):
        return {}
    created = moment(found.created_at, "comment.created_at")
    text = "" if deleted else section(post_of(replace(found, created_at=created)))
    return {f"{created} {part(found.id)}": (moment(found.updated_at, "comment.updated_at"), text and text + "\n")}


def _state(found: _Discussed) -> str:
    """State line in the form of the issues connector, so that a document is the same for both ways of ingestion."""
    state, category = found.state, found.category.name
    reason, closed = found.state_reason.replace("_", " "), found.closed_at[:10]
    if state == "closed":
        state += (f" as {reason}" if reason else "") + (f" on {closed}" if closed else "")
    facts = (f"State: {state}" if state else "", f"Category: {category}" if category else "")
    return one_line(", ".join(filter(None, facts)))


def _release(payload: Mapping[str, Any], repository: str, prefix: str) -> list[DocumentUpdate]:
    mark = read_payload(_Release, payload["release"])
    key = f"{prefix}/releases/{part(mark.id)}"
    given = {"created_at": mark.created_at, "published_at": mark.published_at, "updated_at": mark.updated_at}
    times = [moment(value, f"release.{name}") for name, value in given.items()]
    if read_payload(_Delivery, payload).action in ("deleted", "unpublished"):
        return [DocumentUpdate(key=key, time=max(times), deleted=True)]
    if mark.draft:
        return []
    release = read_payload(_Published, payload["release"])
    facts = [
        ("Repository", repository),
        ("Tag", release.tag_name),
        ("Prerelease", "yes" if release.prerelease else ""),
        ("Published", times[1]),
    ]
    known = metadata(
        tags=["release", release.tag_name],
        source_uri=release.html_url,
        created=times[0],
        updated=max(times),
        author=release.author.login,
        services=[repository],
    )
    text = document(f"{repository} {release.name or release.tag_name}", facts, [("Notes", release.body)])
    return [DocumentUpdate(key=key, time=max(times), text=text, metadata=known)]


def _deployment(payload: Mapping[str, Any], repository: str, prefix: str) -> list[DocumentUpdate]:
    found = read_payload(_Deployed, payload)
    status, deployment = found.deployment_status, found.deployment
    environment = status.environment or deployment.environment
    time = moment(status.updated_at or status.created_at, "deployment_status.updated_at")
    created = moment(deployment.created_at, "deployment.created_at")
    address = status.log_url or status.target_url
    facts = [
        ("Repository", repository),
        ("Environment", environment),
        ("State", status.state),
        ("Ref", deployment.ref),
        ("Commit", deployment.sha),
        ("Begun", created),
        ("Last change", time),
        ("Log", address),
    ]
    known = metadata(
        tags=["deployment", environment, status.state],
        source_uri=address,
        created=created,
        updated=time,
        author=deployment.creator.login,
        services=[repository],
    )
    sections = [("Description", deployment.description), ("Status", status.description)]
    text = document(f"Deployment of {repository} to {environment or 'an environment'}", facts, sections)
    return [DocumentUpdate(key=f"{prefix}/deployments/{part(deployment.id)}", time=time, text=text, metadata=known)]


def _push(payload: Mapping[str, Any], repository: str, prefix: str) -> list[DocumentUpdate]:
    """Returns a document per push; those of a removed branch or tag stay."""
    if payload.get("deleted") or payload.get("head_commit") is None:
        return []
    push = read_payload(_Push, payload)
    branch = push.ref.removeprefix("refs/heads/").removeprefix("refs/")
    time = moment(push.head_commit.timestamp, "head_commit.timestamp")
    facts = [
        ("Repository", repository),
        ("Branch", branch),
        ("Pushed by", push.pusher.name),
        ("Commits", str(len(push.commits))),
        ("Forced", "yes" if push.forced else ""),
        ("Compare", push.compare),
    ]
    sections = [_commit(commit) for commit in push.commits[-MAX_COMMITS:]]
    known = metadata(
        tags=["push", branch], source_uri=push.compare, updated=time, author=push.pusher.name, services=[repository]
    )
    title = f"Push to {repository} {branch}: {(push.head_commit.message.splitlines() or [''])[0]}"
    key = f"{prefix}/pushes/{part(branch)}/{part(push.after)}"
    return [DocumentUpdate(key=key, time=time, text=document(title, facts, sections), metadata=known)]


def _commit(commit: _Commit) -> tuple[str, str]:
    files = []
    for change, names in (("added", commit.added), ("modified", commit.modified), ("removed", commit.removed)):
        more = f" and {len(names) - _MAX_FILES} more" if len(names) > _MAX_FILES else ""
        if names:
            files.append(f"- {change}: {', '.join(f'`{name}`' for name in names[:_MAX_FILES])}{more}")
    title = f"Commit {commit.id[:12]} by {commit.author.name or 'somebody'}"
    return title, "\n\n".join(filter(None, (commit.message, "\n".join(files))))


_READERS: Mapping[str, Callable[[Mapping[str, Any], str, str], list[DocumentUpdate]]] = {
    "issues": _discussed("issue", "issues"),
    "issue_comment": _discussed("issue", "issues"),
    "discussion": _discussed("discussion", "discussions"),
    "discussion_comment": _discussed("discussion", "discussions"),
    "release": _release,
    "deployment_status": _deployment,
    "push": _push,
}


FORMAT = WebhookFormat(
    event_of,
    lambda delivery: changes_of(event_of(delivery), payload_of(delivery)),
    # "Validating webhook deliveries" of GitHub's documentation.
    HubSignature("x-hub-signature-256", b"sha256="),
    {
        "action": "opened",
        "issue": {
            "number": 1,
            "title": SAMPLE_TITLE,
            "body": "Only a test.",
            "state": "open",
            "updated_at": SAMPLE_TIME,
        },
        "repository": {"full_name": "opx/test-delivery"},
    },
    {EVENT_HEADER: "issues"},
    events=tuple(_READERS),
)
