"""Measures whether a home answers after a month of alerts, agent runs, changes and tickets as on its first day:
`python -m tests.benchmarks.field FOLDER [--feeds N] [--set BEIR_FOLDER] [--json FILE]`, or `make field FIELD=path`.

FOLDER has alert rules of Prometheus below `rules` and the pages that their `runbook_url`s lead to below `runbooks`. The pages
are ingested and the rules imported. There are three questions about each alert with a page: its name, its summary and its
payload. Then the home is fed with a month of records, over the doors that users have: each alert fires, is repeated and
resolved; agents hand in their runs; webhooks deliver changes and tickets, all in the words of the alerts. At last every
second alert fires again, and the same questions follow. It sets no thresholds: the exit status is 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opx.domain.queries import Band, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.errors import InvalidInputError
from opx.facade.knowledge import Knowledge
from opx.facade.opening import of_system
from opx.ingestion.events import EventOutcome, Result
from opx.operations.alert_bindings import ImportAlertRules, import_alert_rules
from opx.operations.system import System
from opx.runtime.knowledge_file import corpus_path
from opx.settings import Settings
from opx.system import bootstrap
from opx_quality.evaluation.datasets import ALL, load_dataset
from opx_quality.evaluation.figures import quality
from opx_quality.evaluation.querying import run_queries
from opx_quality.evaluation.runner import Evaluation
from opx_streams.webhooks.setup import WebhookSetup, webhook_setup
from tests.benchmarks.answering import percentile
from tests.benchmarks.field_month import FieldAlert, Month, read_alerts, rule_files
from tests.support.serving_support import serving

FEEDS = 300
SEED = 1
CONFIG = QueryConfig(min_confidence=0)
NOT_INGESTED = "not ingested"
ANSWER_TIMES = ("answers: p95 ms", "answers: CPU ms")
_DECLARED = """
webhooks:
  alerts: {category: operations/alerts, format: alertmanager, secret: alerts}
  changes: {category: operations/changes, format: generic, secret: changes}
  tickets:
    {category: workplace/tickets, format: generic, secret: tickets,
     json: {id: $.id, title: $.title, content: $.text, updated: $.updated_at}}
"""

Figures = dict[str, float]
Opener = Callable[[Settings], System]


# -- the home


@dataclass(frozen=True)
class Home:
    """A served home with its webhooks."""

    system: System
    knowledge: Knowledge
    webhooks: WebhookSetup

    def deliver(self, webhook: str, record: Mapping[str, Any]) -> None:
        """Posts a signed delivery. Raises `RuntimeError` if it is refused."""
        found = self.webhooks.send(webhook, json.dumps(record).encode(), time.time())
        if found.status >= 400:
            raise RuntimeError(f"{found.address}: {found.status} {found.answer}")

    def work(self) -> None:
        """Ingests what waits, until it is searchable."""
        report_failures(list(self.system.manager.work()))


def report_failures(outcomes: Sequence[EventOutcome]) -> None:
    for one in outcomes:
        if one.result is Result.FAILED:
            print(f"{one.object_key}: {one.reason}", file=sys.stderr)


@contextmanager
def opened_home(folder: Path, opener: Opener) -> Iterator[Home]:
    """A new home whose `knowledge.yaml` is the shipped one with three webhooks."""
    shipped, file = corpus_path("knowledge.yaml"), folder / "knowledge.yaml"
    assert shipped is not None
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(shipped.read_text(encoding="utf-8").replace("\nwebhooks: {}\n", _DECLARED), encoding="utf-8")
    settings = Settings(home=str(folder / "home"), knowledge_file=str(file))
    with opener(settings) as system, serving(system) as server:
        served = replace(settings, webhook_url=f"http://{server.address}/webhooks")
        webhooks = webhook_setup(served, lambda: system.ports.secrets, on_aws=False)
        for name in webhooks.definitions:
            webhooks.make_secret(name)
        yield Home(system, Knowledge(of_system(system)), webhooks)


def put_pages_and_rules(home: Home, field: Path) -> None:
    report_failures(home.knowledge.add_files(field / "runbooks").outcomes)
    for path in rule_files(field / "rules"):
        name = "-".join(path.relative_to(field / "rules").parts)
        try:
            home.knowledge.call(import_alert_rules, ImportAlertRules(name=name, rules=path.read_text(encoding="utf-8")))
        except InvalidInputError as exc:
            print(exc, file=sys.stderr)
    home.work()


def pages_by_path(home: Home, alerts: Sequence[FieldAlert], field: Path) -> dict[Path, str]:
    """The ids of the documents of the pages. A page without one is named, and counts as absent from all answers."""
    documents = {one.source: one.document_id for one in home.knowledge.documents()}
    found = {}
    for page in sorted({alert.page for alert in alerts if alert.page}):
        end = f"/{page.relative_to(field).as_posix()}"
        found[page] = next((key for source, key in documents.items() if source.endswith(end)), NOT_INGESTED)
        if found[page] == NOT_INGESTED:
            print(f"{page}: a rule names it, and it was not ingested", file=sys.stderr)
    return found


# -- questions


def ask(home: Home, alerts: Sequence[FieldAlert], pages: Mapping[Path, str]) -> Figures:
    """Counts by kind of question, the times of a second round, and the documents by category."""
    counts: Counter[str] = Counter()
    texts = []
    for alert in alerts:
        if alert.page is None:
            continue
        for kind, text in alert.questions().items():
            answer = home.knowledge.answer(text, CONFIG)
            counts.update({f"{kind}: {name}": count for name, count in judged(answer, pages[alert.page]).items()})
            texts.append(text)
    categories = Counter(f"documents: {one.category}" for one in home.knowledge.documents())
    return {**counts, **answer_times(home.knowledge, texts), **dict(sorted(categories.items()))}


def judged(answer: Answer, page: str) -> dict[str, int]:
    """Each measure of an answer to a question whose right page is this one, as 0 or 1. Guidance are documents that are no
    reports."""
    first = next((one.document_id for one in answer.results), "")
    guidance = next((one.document_id for one in answer.results if not one.is_report), "")
    band = next((one.band for one in answer.results if one.document_id == page), Band.WEAK)
    return {
        "questions": 1,
        "page first": int(first == page),
        "page first among guidance": int(guidance == page),
        "page at least likely": int(band is not Band.WEAK),
        "page absent or weak": int(band is Band.WEAK),
    }


def answer_times(knowledge: Knowledge, texts: Sequence[str]) -> Figures:
    """Times of a repeated question: vectors of all questions are cached, before feeding as after it."""
    walls, started = [], time.process_time()
    for text in texts:
        begun = time.perf_counter()
        knowledge.answer(text, CONFIG)
        walls.append(1000 * (time.perf_counter() - begun))
    cpu = 1000 * (time.process_time() - started) / max(len(texts), 1)
    return dict(zip(ANSWER_TIMES, (percentile(walls, 95) if walls else 0.0, cpu), strict=True))


# -- feeding


def feed(home: Home, alerts: Sequence[FieldAlert], count: int, seed: int, now: datetime) -> None:
    """Feeds so many runs, changes and tickets each, after all alerts fired and ended; then every second one fires again."""
    for status in ("firing", "firing", "resolved"):
        notify(home, alerts, status)
    month = Month(alerts, seed, now)
    for number in range(count):
        home.knowledge.ingest_from_evidence(month.run(number))
        home.deliver("changes", month.change(number))
        home.deliver("tickets", month.ticket(number))
    notify(home, [replace(alert, started=now) for alert in alerts[::2]], "firing")


def notify(home: Home, alerts: Sequence[FieldAlert], status: str) -> None:
    """Notifies about each alert alone, and waits until all that was delivered is searchable."""
    for alert in alerts:
        home.deliver("alerts", {"version": "4", "status": status, "alerts": [alert.payload(status)]})
    home.work()


# -- the two measurements


def measure(field: Path, folder: Path, feeds: int, seed: int, opener: Opener = bootstrap) -> tuple[Figures, Figures]:
    """Figures before and after feeding. Exits if there is nothing to ask."""
    now = datetime.now(UTC)
    alerts = read_alerts(field, seed, now)
    with_page = sum(alert.page is not None for alert in alerts)
    print(f"{with_page} of {len(alerts)} alerts have a page", file=sys.stderr)
    if not with_page:
        raise SystemExit(f"{field}: no rule below rules has a runbook_url that leads to a page below runbooks")
    with opened_home(folder, opener) as home:
        put_pages_and_rules(home, field)
        pages = pages_by_path(home, alerts, field)
        before = ask(home, alerts, pages)
        print("feeding ...", file=sys.stderr)
        feed(home, alerts, feeds, seed, now)
        return before, ask(home, alerts, pages)


class FedEvaluation(Evaluation):
    """An evaluation in a system that has other documents than the pages of the dataset, too."""

    def page_of(self, key_id: str) -> str:
        return self._page_of_key.get(key_id, key_id)


def measure_set(
    dataset: Path, field: Path, folder: Path, feeds: int, seed: int, opener: Opener = bootstrap
) -> tuple[Figures, Figures]:
    """nDCG@10 of people's own questions, before and after their pages' home was fed with the alerts of the field."""
    now = datetime.now(UTC)
    with opened_home(folder, opener) as home:
        evaluation = FedEvaluation(home.system, load_dataset(dataset))
        evaluation.ingest()
        before = quality_of(evaluation)
        feed(home, read_alerts(field, seed, now), feeds, seed, now)
        return before, quality_of(evaluation)


def quality_of(evaluation: Evaluation) -> Figures:
    run = run_queries(evaluation, [SearchMode.BALANCED], compared_at=None)
    return {"questions of the set: nDCG@10": quality(run)[SearchMode.BALANCED.value][ALL]["nDCG@10"]}


# -- the report


def table_lines(before: Figures, after: Figures) -> Iterator[str]:
    yield f"{'':42}{'before':>10}{'after':>10}"
    for name in {**before, **after}:
        values = [figures.get(name, 0) for figures in (before, after)]
        shown = "".join(f"{value:>10.4g}" if isinstance(value, float) else f"{value:>10}" for value in values)
        ratio = f"   x {values[1] / values[0]:.2f}" if name in ANSWER_TIMES and values[0] else ""
        yield f"{name:42}{shown}{ratio}"


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("field", type=Path, help="a folder with `rules` and `runbooks`")
    parser.add_argument("--feeds", type=int, default=FEEDS, help=f"of runs, changes and tickets each ({FEEDS})")
    parser.add_argument("--seed", type=int, default=SEED, help="another one for other labels and records")
    parser.add_argument("--set", type=Path, help="a BEIR folder, whose questions are asked in a home of their own")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args(given)
    if missing := [name for name in ("rules", "runbooks") if not (args.field / name).is_dir()]:
        parser.error(f"{args.field} has no folder {' and no folder '.join(missing)}")
    return args


def main(given: Sequence[str] | None = None, opener: Opener = bootstrap) -> None:
    args = arguments(given)
    field = args.field.resolve()
    with tempfile.TemporaryDirectory(prefix="opx-field-") as folder:
        before, after = measure(field, Path(folder) / "field", args.feeds, args.seed, opener)
        if args.set:
            sets = measure_set(args.set, field, Path(folder) / "set", args.feeds, args.seed, opener)
            before, after = {**before, **sets[0]}, {**after, **sets[1]}
    print("\n".join(table_lines(before, after)))
    if args.json:
        figures = {"feeds": args.feeds, "seed": args.seed, "before": before, "after": after}
        args.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
