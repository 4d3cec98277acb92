"""Which services run a version that a vulnerability affects, and which runbooks cover them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opx.domain.graph import Direction, Edge
from opx.graph.questions.answers import GraphAnswer, Row, counted, name_of
from opx.graph.questions.walking import along, is_a, walked
from opx.graph.versions import each_of, version_in

if TYPE_CHECKING:
    from opx.domain.graph import Value
    from opx.graph.knowledge_graph import KnowledgeGraph


def affected(graph: KnowledgeGraph, cve: str) -> GraphAnswer:
    """What runs a product in a version that the vulnerability affects; last what runs it in a version that isn't known.

    `values` of a row: `product`, `version`, the affected `versions`, and whether that is `certain`. Raises
    `NodeNotFoundError`, `InvalidReferenceError` and `StoreUnavailableError`.
    """
    start = graph.key_of(cve)
    products = walked(graph, [start], along(1, Direction.OUT, "affects"))
    by_product = {edge.target: edge for edge in products.edges if is_a(edge.target, "product")}
    running = walked(graph, by_product, along(1, Direction.IN, "runs"))
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
    """None if no version that runs is among the affected ones."""
    version = str(runs.properties.get("version", ""))
    versions = str(affects.properties.get("versions", ""))
    certain = bool(version) or not versions
    if certain and not any(version_in(one, versions) for one in each_of(version) or [""]):
        return None
    values: dict[str, Value] = {"product": affects.target, "version": version, "versions": versions, "certain": certain}
    return Row(runs.source, (affects, runs), values=values)


def runbooks_for_cve(graph: KnowledgeGraph, cve: str) -> GraphAnswer:
    """Runbooks about the services that run an affected version; the explanation names services that have none. Raises as
    `affected`."""
    start = graph.resolve(cve)
    services = affected(graph, start)
    paths = {row.key: row for row in services.rows}
    documented = walked(graph, paths, along(1, Direction.IN, "documents"))
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


def _list(keys: list[str] | dict[str, Edge]) -> str:
    return ", ".join(name_of(key) for key in sorted(keys))
