"""GitHub ("Webhook events and payloads" of its documentation): issues, discussions, pushes, releases, deployments.

Which event it is stands in a header that isn't signed, so that it is believed only as far as the body bears it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from opx.domain.record import replace
from opx.sources.community.threads import thread
from opx.webhooks.deliveries import Delivery
from opx.webhooks.errors import PayloadError
from opx.webhooks.payloads.shape import (
    Change,
    document,
    metadata,
    moment,
    needed,
    one_line,
    part,
    rows_at,
    text_at,
    value_at,
)

EVENT_HEADER = "x-github-event"
MAX_COMMITS = 50
_MAX_FILES = 20
_GONE = ("deleted", "transferred")
_FORM = b"payload="

_SHAPES = {
    "issues": (("issue",), ("comment",)),
    "discussion": (("discussion",), ("comment",)),
    "release": (("release",), ()),
    "deployment_status": (("deployment_status", "deployment"), ()),
    "push": (("ref", "after", "commits"), ("pull_request",)),
}
"""What the body of an event has, and what it hasn't: a deleted comment must not pass for a deleted issue."""


def event_of(delivery: Delivery) -> str:
    """Such as `issues`. Raises `PayloadError` without the header."""
    event = delivery.header(EVENT_HEADER).strip().decode("utf-8", "replace")
    if not event:
        raise PayloadError("the delivery has no header X-GitHub-Event")
    return event


def payload_of(delivery: Delivery) -> dict[str, Any]:
    """The body's object, which GitHub sends as it is or as the field `payload` of a form: "Content type" of a webhook's
    settings. Raises `PayloadError`."""
    if not delivery.body.startswith(_FORM):  # which no JSON does; the header that names the type isn't signed
        return delivery.json()
    try:
        fields = parse_qsl(delivery.body.decode("ascii"), max_num_fields=1, strict_parsing=True, errors="strict")
    except ValueError as exc:
        raise PayloadError("the body is no form with one field, payload") from exc
    return replace(delivery, headers={}, body=fields[0][1].encode("utf-8") if fields else b"").json()


def check_shape(event: str, payload: Mapping[str, Any]) -> None:
    """Raise `PayloadError` if the body is not of the event that the header names."""
    present, absent = _SHAPES[event]
    if not all(name in payload for name in present) or any(name in payload for name in absent):
        raise PayloadError(f"the body is not that of the event {event}")


def changes_of(event: str, payload: Mapping[str, Any]) -> list[Change]:
    """What the event means for documents; nothing for events that are not read. Raises `PayloadError`."""
    if event not in _READERS:
        return []
    check_shape(event, payload)
    repository = needed(payload, "repository", "full_name")
    return _READERS[event](payload, repository, "/".join(part(name) for name in repository.split("/")))


def _discussed(field: str, folder: str) -> Callable[[Mapping[str, Any], str, str], list[Change]]:
    def read(payload: Mapping[str, Any], _repository: str, prefix: str) -> list[Change]:
        found = payload[field]
        key = f"{prefix}/{folder}/{part(needed(found, 'number'))}"
        time = moment(needed(found, "updated_at"), f"{field}.updated_at")
        if text_at(payload, "action") in _GONE:
            return [Change(key=key, time=time, deleted=True)]
        labels = [text_at(label, "name") for label in rows_at(found, "labels")]
        author, created = text_at(found, "user", "login"), moment(value_at(found, "created_at"), f"{field}.created_at")
        known = metadata(
            tags=labels,
            source_uri=text_at(found, "html_url"),
            created=created,
            updated=time,
            author=author,
        )
        text = thread(needed(found, "title"), _state(found), text_at(found, "body"), ())
        return [Change(key=key, time=time, text=text, metadata=known)]

    return read


def _state(found: Mapping[str, Any]) -> str:
    """As the connector that pulls issues says it, so that a document looks the same whichever way it came."""
    state, category = text_at(found, "state"), text_at(found, "category", "name")
    reason, closed = text_at(found, "state_reason").replace("_", " "), text_at(found, "closed_at")[:10]
    if state == "closed":
        state += (f" as {reason}" if reason else "") + (f" on {closed}" if closed else "")
    facts = (f"State: {state}" if state else "", f"Category: {category}" if category else "")
    return one_line(", ".join(filter(None, facts)))


def _release(payload: Mapping[str, Any], repository: str, prefix: str) -> list[Change]:
    release = payload["release"]
    key = f"{prefix}/releases/{part(needed(release, 'id'))}"
    times = [
        moment(value_at(release, name), f"release.{name}") for name in ("created_at", "published_at", "updated_at")
    ]
    if text_at(payload, "action") in ("deleted", "unpublished"):
        return [Change(key=key, time=max(times), deleted=True)]
    if release.get("draft"):
        return []
    tag = needed(release, "tag_name")
    facts = [
        ("Repository", repository),
        ("Tag", tag),
        ("Prerelease", "yes" if release.get("prerelease") else ""),
        ("Published", times[1]),
    ]
    known = metadata(
        tags=["release", tag],
        source_uri=text_at(release, "html_url"),
        created=times[0],
        updated=max(times),
        author=text_at(release, "author", "login"),
        services=[repository],
    )
    title = f"{repository} {text_at(release, 'name') or tag}"
    text = document(title, facts, [("Notes", text_at(release, "body"))])
    return [Change(key=key, time=max(times), text=text, metadata=known)]


def _deployment(payload: Mapping[str, Any], repository: str, prefix: str) -> list[Change]:
    status, deployment = payload["deployment_status"], payload["deployment"]
    environment = text_at(status, "environment") or text_at(deployment, "environment")
    time = moment(value_at(status, "updated_at") or value_at(status, "created_at"), "deployment_status.updated_at")
    created = moment(value_at(deployment, "created_at"), "deployment.created_at")
    facts = [
        ("Repository", repository),
        ("Environment", environment),
        ("State", needed(status, "state")),
        ("Ref", text_at(deployment, "ref")),
        ("Commit", text_at(deployment, "sha")),
        ("Begun", created),
        ("Last change", time),
        ("Log", text_at(status, "log_url") or text_at(status, "target_url")),
    ]
    about = text_at(deployment, "description")
    sections = [("Description", about), ("Status", text_at(status, "description"))]
    known = metadata(
        tags=["deployment", environment, text_at(status, "state")],
        source_uri=text_at(status, "log_url") or text_at(status, "target_url"),
        created=created,
        updated=time,
        author=text_at(deployment, "creator", "login"),
        services=[repository],
    )
    text = document(f"Deployment of {repository} to {environment or 'an environment'}", facts, sections)
    return [Change(key=f"{prefix}/deployments/{part(needed(deployment, 'id'))}", time=time, text=text, metadata=known)]


def _push(payload: Mapping[str, Any], repository: str, prefix: str) -> list[Change]:
    """Each push is a document of its own; a branch or tag that was removed leaves what was pushed to it."""
    head = payload.get("head_commit")
    if payload.get("deleted") or head is None:
        return []
    if not isinstance(head, Mapping):
        raise PayloadError("head_commit is not an object")
    branch = needed(payload, "ref").removeprefix("refs/heads/").removeprefix("refs/")
    commits = rows_at(payload, "commits")
    time = moment(value_at(head, "timestamp"), "head_commit.timestamp")
    facts = [
        ("Repository", repository),
        ("Branch", branch),
        ("Pushed by", text_at(payload, "pusher", "name")),
        ("Commits", str(len(commits))),
        ("Forced", "yes" if payload.get("forced") else ""),
        ("Compare", text_at(payload, "compare")),
    ]
    sections = [_commit(commit) for commit in commits[-MAX_COMMITS:]]
    known = metadata(
        tags=["push", branch],
        source_uri=text_at(payload, "compare"),
        updated=time,
        author=text_at(payload, "pusher", "name"),
        services=[repository],
    )
    title = f"Push to {repository} {branch}: {(text_at(head, 'message').splitlines() or [''])[0]}"
    key = f"{prefix}/pushes/{part(branch)}/{part(needed(payload, 'after'))}"
    return [Change(key=key, time=time, text=document(title, facts, sections), metadata=known)]


def _commit(commit: Mapping[str, Any]) -> tuple[str, str]:
    files = []
    for change in ("added", "modified", "removed"):
        names = commit.get(change)
        listed = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        more = f" and {len(listed) - _MAX_FILES} more" if len(listed) > _MAX_FILES else ""
        if listed:
            files.append(f"- {change}: {', '.join(f'`{name}`' for name in listed[:_MAX_FILES])}{more}")
    who = text_at(commit, "author", "name")
    return f"Commit {needed(commit, 'id')[:12]} by {who or 'somebody'}", "\n\n".join(
        filter(None, (text_at(commit, "message"), "\n".join(files)))
    )


_READERS: Mapping[str, Callable[[Mapping[str, Any], str, str], list[Change]]] = {
    "issues": _discussed("issue", "issues"),
    "discussion": _discussed("discussion", "discussions"),
    "release": _release,
    "deployment_status": _deployment,
    "push": _push,
}
