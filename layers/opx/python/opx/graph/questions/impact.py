"""Impact queries: changes and incidents upstream, dependents, affected services of a CVE, and runbooks of an alert."""

from __future__ import annotations

from opx.domain.graph import MAX_HOPS, Direction, Edge, Value
from opx.domain.record import replace
from opx.graph.knowledge_graph import KnowledgeGraph
from opx.graph.questions.answers import GraphAnswer, Row, counted, is_a, name_of, paths_of, walk_from, widest_walk
from opx.graph.versions import each_of, version_in

CHANGERS = ("change", "commit")
"""Namespaces of nodes that change others."""

BREAKS_WITH = ("depends_on", "hosted_on", "runs")
"""Edge types whose source fails with their target."""


def changes(
    graph: KnowledgeGraph,
    reference: str,
    *,
    since: str = "",
    until: str = "",
    hops: int = MAX_HOPS,
    upstream: bool = True,
) -> GraphAnswer:
    """Changes and commits that affect or modify the dependencies of a node, up to `hops` steps away, or its dependents; the
    newest first. `since` and `until` bound their time, ISO 8601, both inclusive.

    Each is listed once, by the shortest path. Raises `NodeNotFoundError`, `InvalidReferenceError` and
    `StoreUnavailableError`.
    """
    what = ("change", "changes", "what changed")
    return _events(graph, reference, CHANGERS, what, since=since, until=until, hops=hops, upstream=upstream)


def incidents(graph: KnowledgeGraph, reference: str, *, since: str = "") -> GraphAnswer:
    """Incidents of the dependencies of a node, as `changes`."""
    what = ("incident", "incidents", "incidents")
    return _events(graph, reference, ("incident",), what, since=since)


def _events(
    graph: KnowledgeGraph,
    reference: str,
    namespaces: tuple[str, ...],
    what: tuple[str, str, str],
    *,
    since: str = "",
    until: str = "",
    hops: int = MAX_HOPS,
    upstream: bool = True,
) -> GraphAnswer:
    start = graph.key_of(reference)
    around = walk_from(graph, [start], widest_walk(hops, Direction.OUT if upstream else Direction.IN, "depends_on"))
    paths = {key: path for key, path in paths_of(around).items() if key != start}
    made = walk_from(graph, paths, widest_walk(1, Direction.IN, "affects", "modifies", since=since, until=until))
    rows: dict[str, Row] = {}
    for edge in made.edges:
        if not is_a(edge.source, *namespaces) or edge.target not in paths:
            continue
        row = Row(edge.source, (*paths[edge.target], edge), edge.at, {"affects": edge.target})
        known = rows.get(edge.source)
        if known is None or len(row.path) < len(known.path):
            rows[edge.source] = row
    found = sorted(rows.values(), key=lambda row: (row.at, row.key), reverse=True)
    side = "upstream" if upstream else "downstream"
    kind = "dependency" if upstream else "dependent"
    among = (
        f", among {counted(len(paths), kind, 'dependencies' if upstream else 'dependents')}"
        if paths
        else f": no {side} {kind} is known"
    )
    explanation = f"{counted(len(found), *what[:2])}{_span(since, until)} {side} of {name_of(start)}{among}"
    return GraphAnswer(f"{what[2]} {side} of {start}", explanation, tuple(found), bool(around.cut or made.cut))


def _span(since: str, until: str) -> str:
    return (f" since {since}" if since else "") + (f" until {until}" if until else "")


def what_handles(graph: KnowledgeGraph, alert: str) -> GraphAnswer:
    """The runbooks of an alert, or of the alert of a firing; the surest first. Raises `NodeNotFoundError`,
    `InvalidReferenceError` and `StoreUnavailableError`."""
    start = graph.key_of(alert)
    rules: dict[str, tuple[Edge, ...]] = {start: ()}
    cut = False
    if is_a(start, "alert_event"):
        of = walk_from(graph, [start], widest_walk(1, Direction.OUT, "instance_of"))
        rules = {edge.target: (edge,) for edge in of.edges}
        cut = bool(of.cut)
    handled = walk_from(graph, rules, widest_walk(1, Direction.IN, "handles"))
    edges = sorted(handled.edges, key=lambda edge: (-edge.confidence, edge.source))
    rows = {edge.source: Row(edge.source, (*rules[edge.target], edge)) for edge in edges if edge.target in rules}
    explanation = f"{counted(len(rows), 'runbook')} for {name_of(start)}"
    return GraphAnswer(f"what handles {start}", explanation, tuple(rows.values()), bool(cut or handled.cut))


def blast_radius(graph: KnowledgeGraph, reference: str, hops: int = MAX_HOPS) -> GraphAnswer:
    """Direct and indirect dependents of a service, the nearest first; of a host or a product, the services that are hosted
    on it or run it, and their dependents. Raises `NodeNotFoundError`, `InvalidReferenceError` and `StoreUnavailableError`."""
    start = graph.key_of(reference)
    found = walk_from(graph, [start], widest_walk(hops, Direction.IN, *BREAKS_WITH))
    rows = tuple(Row(one.key, one.path, values={"distance": one.distance}) for one in found.reached if one.distance)
    direct = sum(1 for row in rows if row.values["distance"] == 1)
    explanation = (
        f"{counted(len(rows), 'thing depends', 'things depend')} on {name_of(start)}, {direct} of them directly"
    )
    return GraphAnswer(f"what depends on {start}", explanation, rows, bool(found.cut))


def affected(graph: KnowledgeGraph, cve: str) -> GraphAnswer:
    """Services that run a product in a version that the vulnerability affects; those with an unknown version come last.

    `values` of a row: `product`, `version`, the affected `versions`, and whether that is `certain`. Raises
    `NodeNotFoundError`, `InvalidReferenceError` and `StoreUnavailableError`.
    """
    start = graph.key_of(cve)
    products = walk_from(graph, [start], widest_walk(1, Direction.OUT, "affects"))
    by_product = {edge.target: edge for edge in products.edges if is_a(edge.target, "product")}
    running = walk_from(graph, by_product, widest_walk(1, Direction.IN, "runs"))
    rows: dict[str, Row] = {}
    for edge in running.edges:
        row = _row(by_product[edge.target], edge) if edge.target in by_product else None
        if row and not (rows.get(row.key) and rows[row.key].values["certain"]):
            rows[row.key] = row
    found = sorted(rows.values(), key=lambda row: (not row.values["certain"], row.key))
    explanation = (
        f"{counted(len(found), 'service runs', 'services run')} an affected version of "
        f"{_list(by_product) or 'any product'} ({name_of(start)})"
    )
    unsure = sum(1 for row in found if not row.values["certain"])
    if unsure:
        explanation += f"; of {unsure} of them the version is not known"
    return GraphAnswer(f"what {name_of(start)} affects", explanation, tuple(found), bool(products.cut or running.cut))


def _row(affects: Edge, runs: Edge) -> Row | None:
    """The row of a service; None if none of its versions is affected."""
    version = str(runs.properties.get("version", ""))
    versions = str(affects.properties.get("versions", ""))
    certain = bool(version) or not versions
    if certain and not any(version_in(one, versions) for one in each_of(version) or [""]):
        return None
    values: dict[str, Value] = {"product": affects.target, "version": version, "versions": versions, "certain": certain}
    return Row(runs.source, (affects, runs), values=values)


def runbooks_for_cve(graph: KnowledgeGraph, cve: str) -> GraphAnswer:
    """Runbooks of the services that run an affected version; the explanation lists services without one. Raises as
    `affected`."""
    start = graph.resolve(cve)
    services = affected(graph, start)
    paths = {row.key: row for row in services.rows}
    documented = walk_from(graph, paths, widest_walk(1, Direction.IN, "documents"))
    rows: dict[tuple[str, str], Row] = {}
    for edge in documented.edges:
        if is_a(edge.source, "runbook") and edge.target in paths:
            service = paths[edge.target]
            values = {**service.values, "service": edge.target}
            rows[edge.source, edge.target] = Row(edge.source, (*service.path, edge), values=values)
    found = sorted(rows.values(), key=lambda row: (not row.values["certain"], row.key, str(row.values["service"])))
    bare = [key for key in paths if key not in {str(row.values["service"]) for row in found}]
    explanation = f"{counted(len({row.key for row in found}), 'runbook')}; {services.explanation}"
    if bare:
        explanation += f"; no runbook for {_list(bare)}"
    return GraphAnswer(
        f"runbooks for {name_of(start)}", explanation, tuple(found), bool(services.cut or documented.cut)
    )


def exposure(graph: KnowledgeGraph, cve: str) -> GraphAnswer:
    """Services that run an affected version, then their runbooks. Without such services, the explanation states that the
    product is not in the inventory. Raises as `affected`."""
    services = affected(graph, cve)
    if not services.rows:
        return replace(services, explanation=f"{services.explanation}: not in the inventory")
    runbooks = runbooks_for_cve(graph, cve)
    return replace(runbooks, question=services.question, rows=(*services.rows, *runbooks.rows))


def _list(keys: list[str] | dict[str, Edge]) -> str:
    return ", ".join(name_of(key) for key in sorted(keys))
