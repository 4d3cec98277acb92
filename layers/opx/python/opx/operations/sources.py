"""Operations on sources, and crawls of web sites.

Their documents belong to the installation's own scope, so only its administrators may manage them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from msgspec.structs import asdict

from opx.connectors.registry import SourceKind, source_kinds
from opx.connectors.states import SourceView
from opx.connectors.trial import SourceTrial
from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Filled, Request, RequestError, Share, Text
from opx.domain.sources import PullReport
from opx.operations.context import Context
from opx.operations.registry import Function, operation

if TYPE_CHECKING:
    from opx.connectors.control import SourceControl

MAX_URLS = 100
TRIED = "trial"
"""The id of a source that is tested, in its errors."""

_DEFINITION = "As in knowledge.yaml: kind, category, schedule, time_zone, enabled, options, tags, max_missing_share."

SourceId = Annotated[str, about("The id of a source.", max_length=48)]
Url = Annotated[Filled, Meta(max_length=2048)]
UrlPath = Annotated[Filled, Meta(max_length=500)]


class ListSources(Request, frozen=True):
    pass


class Sources(Record, frozen=True):
    sources: tuple[SourceView, ...]


@operation(http="GET /sources", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def list_sources(context: Context, request: ListSources) -> Sources:  # noqa: ARG001 - as all operations
    """List all sources with the state of their pulls."""
    return Sources(tuple(_sources(context).views()))


class ListSourceKinds(Request, frozen=True):
    pass


class SourceKinds(Record, frozen=True):
    kinds: tuple[SourceKind, ...]


@operation(http="GET /sources/kinds", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def list_source_kinds(context: Context, request: ListSourceKinds) -> SourceKinds:  # noqa: ARG001 - as all operations
    """List the kinds of sources with their options: types, defaults and descriptions."""
    return SourceKinds(source_kinds(context.system.installation.knowledge))


class RegisterSource(Request, frozen=True):
    source_id: SourceId
    definition: Annotated[dict[str, Any], about(_DEFINITION)]


@operation(http="PUT /sources/{sourceId}", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def register_source(context: Context, request: RegisterSource) -> SourceView:
    """Register a source, and pull it by its schedule.

    It replaces one that was registered under its id. Raises `InvalidInputError` that names the error, before anything is
    stored, and for the id of a source of knowledge.yaml.
    """
    return _sources(context).register(request.source_id, request.definition)


class TrySource(Request, frozen=True):
    definition: Annotated[dict[str, Any], about(_DEFINITION)]
    limit: Annotated[int, about("Maximum number of documents.", ge=1, le=50)] = 10


@operation(http="POST /sources/trials", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def try_source(context: Context, request: TrySource) -> SourceTrial:
    """Read the first documents of a source before it is registered: nothing is stored, and it ends after 15 seconds.

    Raises `InvalidInputError` that names the error of the definition.
    """
    return _sources(context).try_out(TRIED, request.definition, limit=request.limit)


class ChangeSource(Request, frozen=True):
    source_id: SourceId
    enabled: Annotated[bool | None, about("False pauses it: it is pulled on request only.")] = None
    category: Annotated[Text | None, about("The category of its documents.")] = None
    schedule: Annotated[
        Annotated[str, Meta(max_length=200)] | None, about("Five cron fields; empty for pulls on request only.")
    ] = None
    time_zone: Annotated[Text | None, about("The time zone of the schedule, such as Europe/Vienna.")] = None
    options: Annotated[dict[str, Any] | None, about("Options to change; null removes one, and others stay.")] = None
    tags: Annotated[Annotated[tuple[Text, ...], Meta(max_length=50)] | None, about("Tags of all its documents.")] = None
    max_missing_share: Annotated[Share | None, about("Withdraw nothing if a listing misses more.")] = None


@operation(http="PATCH /sources/{sourceId}", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def change_source(context: Context, request: ChangeSource) -> SourceView:
    """Change a source, pause it, or resume it. A source of knowledge.yaml can only be paused and resumed.

    Raises `InvalidInputError` that names the error, before anything is stored, and for an unknown source.
    """
    fields = asdict(request)
    given = {name: fields[name] for name in fields if name != "source_id" and fields[name] is not None}
    if not given:
        raise RequestError("give a field to change")
    return _sources(context).change(request.source_id, given)


class RemoveSource(Request, frozen=True):
    source_id: SourceId


class RemovedSource(Record, frozen=True):
    removed: Annotated[str, about("The id of the source.")]


@operation(http="DELETE /sources/{sourceId}", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def remove_source(context: Context, request: RemoveSource) -> RemovedSource:
    """Remove a registered source; its documents stay.

    Raises `InvalidInputError` for a source of knowledge.yaml, and for an unknown one.
    """
    _sources(context).remove(request.source_id)
    return RemovedSource(request.source_id)


class PullSource(Request, frozen=True):
    source_id: SourceId
    everything: Annotated[bool, about("Pull everything again, not only changes.")] = False
    accept_missing: Annotated[bool, about("Withdraw documents that a complete listing misses, without a limit.")] = (
        False
    )


class PullStarted(Record, frozen=True, omit_defaults=True):
    source_id: str
    report: Annotated[PullReport | None, about("The result of the pull, if this process does it and no function.")] = (
        None
    )


@operation(http="POST /sources/{sourceId}/pull", function=Function.MANAGE, status=202, action=Action.MANAGE_SOURCES)
def pull_source(context: Context, request: PullSource) -> PullStarted:
    """Pull a source now.

    Where functions pull, the source's state shows the progress. Raises `InvalidInputError` for an unknown source or
    invalid options, and `SourceBusyError`.
    """
    report = _sources(context).pull(
        request.source_id,
        everything=request.everything,
        accept_missing=request.accept_missing,
        progress=context.progress,
    )
    return PullStarted(request.source_id, report)


class CheckSource(Request, frozen=True):
    source_id: SourceId


@operation(http="GET /sources/{sourceId}/health", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def check_source(context: Context, request: CheckSource) -> SourceView:
    """Check if a source can be pulled now, by a request to it."""
    return _sources(context).health(request.source_id)


class CrawlSite(Request, frozen=True, kw_only=True):
    urls: Annotated[tuple[Url, ...], about("Addresses to start at.", max_length=MAX_URLS)] = ()
    sitemaps: Annotated[tuple[Url, ...], about("Sitemaps to follow.", max_length=MAX_URLS)] = ()
    category: Annotated[Text, about("The category of its pages.")]
    depth: Annotated[int, about("How many links to follow from the start.", ge=0, le=20)] | None = None
    max_pages: Annotated[int, about("Maximum number of pages.", ge=1, le=100_000)] | None = None
    include: Annotated[tuple[UrlPath, ...], about("Paths to stay within.", max_length=MAX_URLS)] = ()
    exclude: Annotated[tuple[UrlPath, ...], about("Paths to leave out.", max_length=MAX_URLS)] = ()


@operation(http="POST /crawl", function=Function.MANAGE, status=202, action=Action.MANAGE_SOURCES)
def crawl_site(context: Context, request: CrawlSite) -> PullStarted:
    """Ingest a web site: within its robots.txt, on the same site, at a polite rate.

    It becomes a source that is pulled by hand, whose id follows from the start addresses.
    """
    if not (request.urls or request.sitemaps):
        raise RequestError("a crawl needs an address to begin at: give urls or sitemaps")
    given = {
        "start": list(request.urls),
        "sitemaps": list(request.sitemaps),
        "depth": request.depth,
        "max_pages": request.max_pages,
        "include": list(request.include),
        "exclude": list(request.exclude),
    }
    options = {name: value for name, value in given.items() if value not in ([], None)}
    source_id, report = _sources(context).crawl(request.category, options)
    return PullStarted(source_id, report)


def _sources(context: Context) -> SourceControl:
    return context.system.connectors.control
