"""`opx source`: manages sources that documents are pulled from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import yaml

from opx.connectors.runner import kept_out_text, pull_summary
from opx.connectors.states import SourceView
from opx.connectors.trial import SourceTrial
from opx.domain.sources import PullReport
from opx.edges.calling import plain
from opx.edges.cli.operations import OperationGroup
from opx.edges.cli.output import aligned, exit_unless, print_either, print_json, print_lines, print_table, safe, warn
from opx.edges.cli.session import Session, pass_session
from opx.errors import AccessDeniedError, InvalidInputError, PluginError, SourceBusyError
from opx.operations import sources
from opx.ports.tables import SOURCES


@click.group("source", no_args_is_help=True, cls=OperationGroup)
def source_command() -> None:
    """Sources that documents are pulled from. They are declared in knowledge.yaml, or added here.

    \b
    opx source kinds                       kinds of sources, and their options
    opx source add blog --kind feed --category web/blogs --option urls=https://example.org/feed.xml
    opx source add blog --try ...          its first documents, without adding it
    opx source list                        sources with the state of their pulls
    opx source health blog                 check that it can be pulled
    opx source pull blog                   pull now
    opx source pause blog                  stop its scheduled pulls; resume starts them again
    opx run                                pull all on schedule
    """


@source_command.operation(
    "kinds", sources.list_source_kinds, items="kinds", anywhere=True, json="Print them as JSON, described."
)
def list_kinds(found: sources.SourceKinds) -> None:
    """List the kinds of sources with their options; * marks required ones."""
    for one in found.kinds:
        click.echo(f"{one.kind}: {one.about}")
        if one.options:
            click.echo(f"    {', '.join(f'{each.name}*' if each.required else each.name for each in one.options)}")


@source_command.command("add")
@click.argument("source_id", metavar="ID")
@click.option("--kind", required=True, metavar="KIND", help="Kind of source; see `opx source kinds`.")
@click.option(
    "--category",
    metavar="NAME",
    help="The category of its documents.  [default: that for its kind; see `opx categories`]",
)
@click.option("--schedule", metavar="CRON", help="Five fields; '' for manual pulls only.  [default: the category's]")
@click.option("--time-zone", metavar="NAME", help="Time zone of the schedule.  [default: UTC]")
@click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the kind; lists in YAML: a=[x, y]."
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag of all its documents.")
@click.option(
    "--max-missing-share",
    type=float,
    metavar="SHARE",
    help="Withdraw nothing if a listing misses more.  [default: 0.2]",
)
@click.option("--disabled", is_flag=True, help="Add it, but don't pull it on schedule.")
@click.option("--try", "is_trial", is_flag=True, help="Print its first documents; don't add it.")
@pass_session
def add_source(
    session: Session,
    /,
    source_id: str,
    *,
    options: Sequence[str],
    tags: Sequence[str],
    disabled: bool,
    is_trial: bool,
    **given: Any,
) -> None:
    """Add a source, or replace the one that was added under this id."""
    fields = {name: value for name, value in given.items() if value is not None}
    fields |= {"options": dict(map(_option, options)), "tags": list(tags), "enabled": not disabled}
    if is_trial:
        _print_trial(session.client.call(sources.try_source, sources.TrySource(definition=fields)))
        return
    view = session.client.call(sources.register_source, sources.RegisterSource(source_id=source_id, definition=fields))
    when = f"pulled at {view.schedule} {view.time_zone}" if view.schedule and view.enabled else "pulled manually only"
    click.echo(f"added {view.source_id} ({view.kind} into {view.category}), {when}")


def _print_trial(trial: SourceTrial) -> None:
    """Prints the documents of a trial, and the reason why there are not more."""
    print_lines(f"{one.key}: {one.title or one.source_uri}" for one in trial.documents)
    print_lines(f"can't be read: {one.key}: {one.reason}" for one in trial.refused)
    if trial.timed_out:
        warn("stopped after its time limit: a pull takes longer")
    elif trial.ok and not trial.documents:
        warn("it has no documents")
    if trial.reason:
        warn(trial.reason)
    exit_unless(trial.ok)


@source_command.command("pause")
@click.argument("source_id", metavar="ID")
@pass_session
def pause_source(session: Session, source_id: str) -> None:
    """Stop the scheduled pulls of a source, until it is resumed."""
    session.client.call(sources.change_source, sources.ChangeSource(source_id=source_id, enabled=False))
    click.echo(f"paused {source_id}: it is pulled by `opx source pull {source_id}` only")


@source_command.command("resume")
@click.argument("source_id", metavar="ID")
@pass_session
def resume_source(session: Session, source_id: str) -> None:
    """Pull a source on schedule again."""
    view = session.client.call(sources.change_source, sources.ChangeSource(source_id=source_id, enabled=True))
    click.echo(f"resumed {source_id}{f': next pull {view.next_pull}' if view.next_pull else ''}")


@source_command.operation("list", sources.list_sources, items="sources", anywhere=True, json="Print them as JSON.")
def list_added(found: sources.Sources) -> None:
    """List sources with the results of their last pulls."""
    rows = [
        (v.source_id, v.kind, v.category, _when(v), v.state.last_success or "never", _standing(v))
        for v in found.sources
    ]
    heads = ("ID", "KIND", "CATEGORY", "SCHEDULE", "LAST SUCCESS", "STATE")
    print_table(heads, rows, "no sources yet: `opx source add`, or `sources:` in knowledge.yaml")


@source_command.command("show")
@click.argument("source_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def show_source(session: Session, source_id: str, *, as_json: bool) -> None:
    """Print one source with the details of its last pull, including documents that could not be read."""
    view = _wanted(_views(session), source_id)
    print_either(view, _view_lines(view), as_json=as_json)


@source_command.command("health")
@click.argument("source_ids", metavar="[ID...]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def check_sources(session: Session, source_ids: Sequence[str], *, as_json: bool) -> None:
    """Check that sources (all enabled ones, if none is named) can be pulled."""
    wanted = source_ids or [view.source_id for view in _views(session) if view.enabled]
    found = {}
    for source_id in wanted:
        health = session.client.call(sources.check_source, sources.CheckSource(source_id=source_id)).health
        assert health
        found[source_id] = health
        if not as_json:
            click.echo(safe(f"{source_id}: {'ok' if health.ok else health.reason}"))
    if as_json:
        print_json([{"sourceId": source_id, **plain(health)} for source_id, health in found.items()])
    exit_unless(all(health.ok for health in found.values()))


@source_command.command("pull")
@click.argument("source_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--everything", is_flag=True, help="Request all documents again, not only changes.")
@click.option(
    "--accept-missing", is_flag=True, help="Withdraw all documents that a complete listing misses, however many."
)
@pass_session
def pull_sources(session: Session, source_ids: Sequence[str], *, everything: bool, accept_missing: bool) -> None:
    """Pull sources now, and ingest the pulled documents."""
    failed = False
    for source_id in source_ids:
        request = sources.PullSource(source_id=source_id, everything=everything, accept_missing=accept_missing)
        try:
            report = session.client.call(sources.pull_source, request).report
        except (PluginError, SourceBusyError) as exc:
            warn(str(exc))
            failed = True
            continue
        if report is None:
            click.echo(f"requested a pull of {source_id}: `opx source show {source_id}` shows its progress")
        else:
            failed |= _ingest_pulled(session, report)
    exit_unless(not failed)


def _ingest_pulled(session: Session, report: PullReport) -> bool:
    """Ingests pulled documents and prints failures; True if there were any."""
    click.echo(pull_summary(report))
    failed = bool(report.error or report.flag)
    for outcome in session.loader.outcomes((*report.put, *report.withdrawn)):
        if outcome.error:
            warn(f"failed: {outcome.reason}")
            failed = True
    return failed


@source_command.operation(
    "remove", sources.remove_source, arguments=("source_id",), fields={"source_id": "ID"}, anywhere=True, json=""
)
def remove_added(found: sources.RemovedSource) -> None:
    """Remove an added source. Its documents stay; `opx delete` removes those."""
    click.echo(f"removed {found.removed}; its documents stay")


def _views(session: Session) -> Sequence[SourceView]:
    return session.client.call(sources.list_sources, sources.ListSources()).sources


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidInputError(f"--option {text!r}: give NAME=VALUE")
    try:
        return name, yaml.safe_load(value) if value else ""
    except yaml.YAMLError as exc:
        raise InvalidInputError(f"--option {name}: {value!r} is not valid YAML: quote it") from exc


def _wanted(views: Sequence[SourceView], source_id: str) -> SourceView:
    for view in views:
        if view.source_id == source_id:
            return view
    raise InvalidInputError(
        f"no source {source_id!r}; there are: {', '.join(v.source_id for v in views) or 'none yet'}"
    )


def _when(view: SourceView) -> str:
    if not view.enabled:
        return "disabled"
    zone = "" if view.time_zone == "UTC" else f" {view.time_zone}"
    return f"{view.schedule}{zone}" if view.schedule else "manual"


def _standing(view: SourceView) -> str:
    state = view.state
    if state.error:
        return f"failed {state.failures} times: {state.error}"
    if state.flag:
        return state.flag
    if state.unfinished:
        return "in progress"
    if not state.last_success:
        return "-"
    refused = f", {state.refused:,} can't be read" if state.refused else ""
    kept_out = f"; {kept_out_line(view)}" if state.kept_out_in_all else ""
    return f"{state.put:,} put, {state.unchanged:,} unchanged, {state.withdrawn:,} withdrawn{refused}{kept_out}"


def kept_out_line(view: SourceView) -> str:
    """`243 older than 2 years: kept out by retention`."""
    return kept_out_text(view.state.kept_out_in_all, view.state.kept_out_by)


def kept_out_sources(session: Session) -> list[SourceView]:
    """Sources with documents that retention keeps out; none for a caller who may not list sources. On this machine their
    states are read without the connectors, which need an HTTP client."""
    if not session.is_remote:
        from opx.connectors.repository import SourceRepository, declared_sources

        services, about = session.services, session.services.installation
        declared = declared_sources(about.knowledge, about.knowledge_path)
        sources = SourceRepository(services.tables.table(SOURCES), declared, about.knowledge, services.clock)
        states = ((one, sources.state(one.source_id)) for one in sources.all())
        return [SourceView.of(one, state, declared=False) for one, state in states if state.kept_out_in_all]
    try:
        return [view for view in _views(session) if view.state.kept_out_in_all]
    except AccessDeniedError:
        return []


def _view_lines(view: SourceView) -> Iterator[str]:
    state = view.state
    rows = [
        ("source", view.source_id),
        ("kind", view.kind),
        ("category", f"{view.category} ({view.tier})"),
        ("schedule", _when(view)),
        ("from", "knowledge.yaml" if view.declared else "opx source add"),
        ("last attempt", state.last_attempt or "never"),
        ("last success", state.last_success or "never"),
        ("next pull", view.next_pull or "-"),
        ("next pull from", state.since or "the beginning"),
        ("state", _standing(view)),
    ]
    yield from aligned(rows)
    yield from (f"can't be read: {one.key}: {one.reason}" for one in state.refusals)
