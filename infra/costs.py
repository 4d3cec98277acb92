"""Estimates monthly costs from prices and formulas: `python -m infra.costs docs/deploy.md`.

For planning, without free tiers, taxes and support. `docs/deploy.md` lists what the estimates leave out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from infra.constructs.hybrid_index import MAX_OCUS
from infra.constructs.private_network import ZONES
from infra.diagram import replaced
from opx.domain.prices import PRICES
from opx.lifecycle.costs import (
    AWAKE_MINUTES,
    BYTES_A_CHUNK,
    COHERE,
    GB,
    HOURS,
    INDEXING_WORKERS,
    RECORD_BYTES,
    RECORDS_KEPT_DAYS,
    SEARCH_WORKERS,
    SECONDS,
    Scenario,
    bytes_of_documents,
    monthly,
    records,
    search_hours,
)
from opx.lifecycle.warm_words import MOST_CHUNKS

BEGIN, END = "<!-- costs: begin -->", "<!-- costs: end -->"

NETWORK_ENDPOINTS = 6
"""Endpoints of a private network with the default choices, apart from the free ones."""

BACKUPS_KEPT = 14 + 12
"""Full copies of the tables: one a day for two weeks, and one a month for a year. Of the bucket, AWS Backup stores each
version of an object once."""

CHANGED_A_MONTH = 0.02
"""Share of the documents that are new or changed in a month, in the table of loads."""

CHUNKS_A_DOCUMENT = 4
MANY_CHUNKS, MANY_QUESTIONS = 1_000_000, 1_000_000
"""From which on a collection is taken to need its greatest capacity to search: an assumption, as AWS publishes no capacity
per unit."""

SHORTER_RECORDS_DAYS = 30
WEEKS = HOURS / 24 / 7
READ_SECONDS_A_DOCUMENT, WORDS_SECONDS_A_CHUNK = 0.004, 0.002
"""Seconds of the function that makes segments of words: reading a document with eight threads, and writing a chunk."""

WORDS_BYTES_A_CHUNK = 1_600


@dataclass(frozen=True)
class Choice:
    """A choice of the deployment, with the dollars that it adds to a month with its load."""

    name: str
    added: Callable[[Scenario], float]


def _fixed(dollars: float) -> Callable[[Scenario], float]:
    return lambda _: dollars


def _awake(hours: float) -> Callable[[Scenario], float]:
    """Of a collection that is awake for further hours, as far as questions don't keep it awake anyway."""

    def added(month: Scenario) -> float:
        asleep = 1 - month.search_hours / HOURS
        return hours * asleep * SEARCH_WORKERS * PRICES["OpenSearch Serverless, OCU-hour"]

    return added


def _least_units(units: float) -> Callable[[Scenario], float]:
    def added(month: Scenario) -> float:
        return (HOURS - month.search_hours) * units * PRICES["OpenSearch Serverless, OCU-hour"]

    return added


def _classic(least: float) -> Callable[[Scenario], float]:
    """Its capacity is that of the load, at least two units (one without standby), at all hours."""

    def added(month: Scenario) -> float:
        needed = month.search_hours * month.search_ocus + month.index_hours * month.index_ocus
        grown = month.search_ocus + month.index_ocus if month.search_ocus > SEARCH_WORKERS else 0.0
        return (max(least, grown) * HOURS - needed) * PRICES["OpenSearch Serverless, OCU-hour"]

    return added


def _warm_words(month: Scenario) -> float:
    """At most, if documents change in every hour: each time their chunk files are read."""
    chunks = min(month.chunks, MOST_CHUNKS)
    documents = month.documents * chunks / month.chunks if month.chunks else 0.0
    seconds = documents * READ_SECONDS_A_DOCUMENT + chunks * WORDS_SECONDS_A_CHUNK
    builds = min(HOURS, month.new_documents)
    catalog = documents * PRICES["DynamoDB, million reads of 4 KB"] / 1e6
    reads = documents / 1e3 * PRICES["S3, 1,000 reads"]
    return builds * (seconds * PRICES["Lambda arm64, GB-second"] + reads + catalog) + (
        chunks * WORDS_BYTES_A_CHUNK / GB * PRICES["S3, GB-month"]
    )


def _other_embedding(month: Scenario) -> float:
    return monthly(replace(month, embedding=COHERE))["Embedding"] - monthly(month)["Embedding"]


def _backups(month: Scenario) -> float:
    tables = bytes_of_documents(month) + month.questions * 12 * 2 * RECORD_BYTES
    return (
        BACKUPS_KEPT * tables / GB * PRICES["AWS Backup of DynamoDB, GB-month"]
        + 2 * month.chunks * BYTES_A_CHUNK / GB * PRICES["AWS Backup of S3, GB-month"]
    )


def _records(days: int) -> Callable[[Scenario], float]:
    return lambda month: (sum(records(month, days)) if days else 0.0) - sum(records(month, RECORDS_KEPT_DAYS))


def choices() -> tuple[Choice, ...]:
    """The choices with a price, those that act on it most last."""
    price = PRICES
    endpoint = ZONES * HOURS * price["Interface endpoint, zone-hour"]
    wake = AWAKE_MINUTES / 60
    return (
        Choice("`-c kms_key=own` (in place of the alarms' key)", _fixed(0.0)),
        Choice("`-c wake_on_alarms=true` with an alarm or incident a day", _awake(30 * wake)),
        Choice("the same with 10 a day", _awake(10 * 30 * wake)),
        Choice("the same with 50 a day", _awake(50 * 30 * wake)),
        Choice("segments of words, made anew every hour (`-c warm_words=false`: none)", _warm_words),
        Choice("`-c bulk=true` while no bulk job runs ([a job's price](bulk.md))", _fixed(0.0)),
        Choice("open gaps, queried again once a day", _awake(30 * wake)),
        Choice(
            "`-c canary=true`",
            lambda month: _awake(24 * 30 * wake)(month) + price["CloudWatch alarm"] + price["CloudWatch metric"],
        ),
        Choice("`-c awake='weekdays 7-19'`", _awake(12 * 5 * WEEKS)),
        Choice("`-c search_min_ocu=1` (each further OCU the same)", _least_units(1)),
        Choice("`-c search_generation=classic`", _classic(2.0)),
        Choice("the same with `-c search_standby=false`", _classic(1.0)),
        Choice(f"`-c vpc=true` ({NETWORK_ENDPOINTS} endpoints in {ZONES} zones)", _fixed(NETWORK_ENDPOINTS * endpoint)),
        Choice("each further endpoint (*Private network* lists their choices)", _fixed(endpoint)),
        Choice("`-c snapstart=false`", lambda month: -monthly(month)["SnapStart"]),
        Choice("`-c embedding_model=cohere.embed-v4:0`", _other_embedding),
        Choice("`-c backup=daily`", _backups),
        Choice(f"`-c audit_days={SHORTER_RECORDS_DAYS}`", _records(SHORTER_RECORDS_DAYS)),
        Choice("`-c audit_days=0`", _records(0)),
    )


WORKING_HOURS = 22 * 10.0

SCENARIOS = (
    Scenario("idle"),
    Scenario(
        "1,000 documents, 10,000 questions in working hours",
        documents=1_000,
        chunks=4_000,
        new_documents=200,
        questions=10_000,
        search_hours=search_hours(10_000, WORKING_HOURS),
        index_hours=200 * AWAKE_MINUTES / 60 / 4,  # four documents at a time
    ),
    Scenario(
        "the same, questions around the clock",
        documents=1_000,
        chunks=4_000,
        new_documents=200,
        questions=10_000,
        search_hours=search_hours(10_000, HOURS),
        index_hours=200 * AWAKE_MINUTES / 60 / 4,
    ),
    Scenario(
        "10 million chunks, 100,000 questions",
        documents=2_500_000,
        chunks=10_000_000,
        new_documents=25_000,
        questions=100_000,
        search_hours=HOURS,
        index_hours=HOURS,
        search_ocus=MAX_OCUS,
        index_ocus=2,
    ),
)


def load(documents: int, rate: float) -> Scenario:
    """A month with these stored documents and with questions at a rate in queries per second, around the clock."""
    questions, new = round(rate * SECONDS), round(documents * CHANGED_A_MONTH)
    chunks = documents * CHUNKS_A_DOCUMENT
    busy = chunks > MANY_CHUNKS or questions > MANY_QUESTIONS
    return Scenario(
        f"{documents:,}, {rate:g}/s",
        documents=documents,
        chunks=chunks,
        new_documents=new,
        questions=questions,
        search_hours=search_hours(questions, HOURS),
        index_hours=min(HOURS, new * AWAKE_MINUTES / 60 / 4),
        search_ocus=MAX_OCUS if busy else SEARCH_WORKERS,
        index_ocus=INDEXING_WORKERS + (new > MANY_CHUNKS / 100),
    )


IDLE = SCENARIOS[0]
DOCUMENTS, RATES = (1_000, 100_000, 10_000_000), (0.01, 1, 10)
LOADS = (replace(IDLE, name="no load"), *(load(documents, rate) for documents in DOCUMENTS for rate in RATES))


def tables() -> str:
    """The costs as Markdown tables: services of some months, then totals and choices by load."""
    months = [monthly(scenario) for scenario in SCENARIOS]
    first = ((service, [month[service] for month in months]) for service in months[0])
    lines = [
        *_table("US$ a month", SCENARIOS, [*first, ("**all**", [sum(month.values()) for month in months])]),
        "",
        "By number of documents and questions a second, and what each choice adds to that:",
        "",
        *_table("US$ a month", LOADS, _by_load()),
    ]
    return "\n".join(lines)


def _by_load() -> Iterator[tuple[str, list[float]]]:
    months = [monthly(scenario) for scenario in LOADS]
    yield "**all**", [sum(month.values()) for month in months]
    for part in ("OpenSearch Serverless", "Records of questions (audit)"):
        yield f"of that: {part}", [month[part] for month in months]
    for choice in choices():
        yield f"+ {choice.name}", [choice.added(scenario) for scenario in LOADS]


def _table(corner: str, columns: Sequence[Scenario], rows: Iterable[tuple[str, list[float]]]) -> Iterator[str]:
    yield f"| {corner} | {' | '.join(scenario.name for scenario in columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, amounts in rows:
        mark = "**" if name.startswith("**") else ""
        yield f"| {name} | {' | '.join(f'{mark}{_dollars(amount)}{mark}' for amount in amounts)} |"


def _dollars(amount: float) -> str:
    if abs(amount) < 0.005:
        return "0"
    return f"{amount:,.2f}" if abs(amount) < 10 else f"{amount:,.0f}"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(replaced(target.read_text(), tables(), begin=BEGIN, end=END))
