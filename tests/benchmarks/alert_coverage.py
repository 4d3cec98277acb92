"""Coverage of alerts by pages as others write them: how many alerts of a labelled set coverage finds, and how many wrongly.

`python -m tests.benchmarks.alert_coverage FOLDER`, with a set in BEIR form (`corpus.jsonl`, `queries.jsonl` whose
metadata have the `alert`, `qrels/test.tsv`). Its pages are ingested below `runbooks/`, its alerts as rules with names and
summaries, and without the addresses of their runbooks. The embedder doesn't matter: one is taken that needs no model.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.graph.extraction.own_node import make_reference
from opx.graph.questions.answers import GraphCoverage
from opx.operations.context import Caller, Context
from opx.operations.graph import GetGraphCoverage, get_graph_coverage
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.cli_support import WordEmbedder

_ASCIIDOC = re.compile(r"^= ", re.MULTILINE)
_MOST = 1_000


def main(folder: Path) -> None:
    labels, alerts = read_labels(folder)
    with tempfile.TemporaryDirectory() as home, bootstrap(Settings(home=home), embedder=WordEmbedder()) as services:
        started = time.perf_counter()
        sources = ingest_pages(services, folder)
        without_rules = declared_by_pages(services)
        put_rules(services, alerts)
        print(f"{len(sources)} pages and {len(alerts)} alerts in {time.perf_counter() - started:.0f} s")
        report(services, labels, sources, without_rules)


def read_labels(folder: Path) -> tuple[dict[str, set[str]], dict[str, str]]:
    """The pages of each alert, and a summary of each."""
    queries = {one["_id"]: one for one in map(json.loads, (folder / "queries.jsonl").open())}
    labels: dict[str, set[str]] = defaultdict(set)
    alerts: dict[str, str] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, page, _ = line.split("\t")
        if alert := queries[query]["metadata"].get("alert"):
            labels[alert].add(page)
            is_text = queries[query]["metadata"]["kind"] != "exact"
            alerts[alert] = queries[query]["text"] if is_text else alerts.get(alert, "")
    return dict(labels), alerts


def ingest_pages(services: System, folder: Path) -> dict[str, str]:
    """Ids of pages by their sources."""
    found = {}
    for page in map(json.loads, (folder / "corpus.jsonl").open()):
        text, name = page["text"], page["_id"].replace("#", "--")
        extension = ".adoc" if _ASCIIDOC.search(text) else ".md"
        source = f"runbooks/{name}{extension}"
        metadata = {"source": source, "title": page["title"]}
        key = services.manager.put_document("runbooks/procedures", text.encode(), metadata)
        found[key] = page["_id"]
    list(services.manager.work())
    return found


def put_rules(services: System, alerts: dict[str, str]) -> None:
    rules = {"alerts": [{"name": name, "summary": summary} for name, summary in alerts.items()]}
    services.manager.put_document(
        "operations/alert_rules", json.dumps(rules).encode(), {"source": "alert-rules/set.json"}
    )
    list(services.manager.work())


def declared_by_pages(services: System) -> set[str]:
    """Names of the alerts that pages alone declare."""
    nodes = services.graph.store.of_type(("global",), "alert", limit=20_000)
    return {str(node.properties.get("name", node.key.partition(":")[2])) for node in nodes}


def report(services: System, labels: dict[str, set[str]], sources: dict[str, str], without_rules: set[str]) -> None:
    client = LocalClient(Context(services, Caller(Identity())))
    found = client.call(get_graph_coverage, GetGraphCoverage(limit=_MOST))
    outcomes: dict[str, list[str]] = defaultdict(list)
    for alert, (kind, pages) in judged(services, list(labels), found).items():
        named = {sources[page] for page in pages}
        is_right = bool(named & labels[alert])
        outcomes[f"{kind}, {'right' if is_right else 'wrong' if pages else 'no page'}"].append(alert)
    total = len(labels)
    for name, some in sorted(outcomes.items()):
        print(
            f"{name:>16}: {len(some):4} {len(some) / total:.3f}  {', '.join(some[:6]) if 'right' not in name else ''}"
        )
    right, wrong, unsure = (len(outcomes[name]) for name in ("covered, right", "covered, wrong", "unsure, right"))
    doubtful = len(outcomes["unsure, wrong"])
    print(f"found: {(right + unsure) / total:.3f} of {total}; covered by another page: {wrong / total:.3f}; ", end="")
    print(f"unsure, and of another page: {doubtful / total:.3f}")
    known = {name.casefold() for name in without_rules} & {name.casefold() for name in labels}
    print(f"pages alone name {len(without_rules)} alerts, among them {len(known) / total:.3f} of the set")


def judged(services: System, alerts: list[str], found: GraphCoverage) -> dict[str, tuple[str, list[str]]]:
    """By alert: covered, unsure or missing, and the pages that coverage names."""
    keys = {make_reference("alert", name): name for name in alerts}
    unsure = {one.key: [page.path for page in one.pages] for one in found.alerts_unsure}
    missing = {one.key for one in found.alerts_without_runbook}
    bindings = services.graph.bindings(services.corpus.projects.reader(Identity()), list(keys))
    bound = {key: [one.document.source for one in pages[:1]] for key, pages in bindings.pages().items()}
    return {
        name: ("unsure", unsure[key])
        if key in unsure
        else ("missing", [])
        if key in missing
        else ("covered", bound[key])
        for key, name in keys.items()
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
