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
from opx.lifecycle.seal.daily import MOST_ITEMS
from opx.lifecycle.warm_words import MOST_CHUNKS

BEGIN, END = "<!-- costs: begin -->", "<!-- costs: end -->"

HOURS = 730
WEEKS = HOURS / 24 / 7
SECONDS = HOURS * 3600
GB = 1e9

TOKENS_A_CHUNK = 300
BYTES_A_CHUNK = 3_000
"""Bytes of a line of a chunk file. The index stores it once more as text and once as terms."""

VECTOR_BYTES = 4_096
"""1,024 numbers of four bytes."""

AWAKE_MINUTES = 12
"""Minutes that a question keeps a next-generation collection awake: ten idle ones, and its start."""

SEARCH_WORKERS, INDEXING_WORKERS = 2, 1
"""Capacity units with which a next-generation collection wakes up."""

READ_SECONDS_A_DOCUMENT, WORDS_SECONDS_A_CHUNK = 0.004, 0.002
"""Seconds of the function that makes segments of words: reading a document with eight threads, and writing a chunk."""

WORDS_BYTES_A_CHUNK = 1_600
SEARCH_SECONDS, INGEST_SECONDS_A_DOCUMENT = 0.4, 3.0
LOG_BYTES_A_CALL = 4_000
QUEUES_POLLED = 6
POLLS_A_MONTH = 5 * 3 * 60 * 24 * 30
"""Lambda polls a queue five times in parallel, for 20 seconds each, also when it is empty."""

ALARM_METRICS, DASHBOARDS = 85, 3
METRICS_OF_QUERIES = 41
"""Metrics that are billed only for hours with questions or documents."""

RECORD_BYTES = 1_200
RECORD_WRITES = 4
"""Size and write units of a question's audit record: up to 2 KB in the table, and once more in its index."""

RECORDS_KEPT_DAYS = 365
SHORTER_RECORDS_DAYS = 30
VERSION_WRITES, VERSION_BYTES = 14, 3_600
"""Write units and size of a document's catalog items, which are in three indexes, too, and of its expiry date."""

GRAPH_WRITES, GRAPH_READS, GRAPH_BYTES = 30, 10, 22_000
"""Units and size of a document's graph items, those of indexes included: as in the example corpus, which has 15 rows per
document, for its passages, nodes and edges."""

NIGHTS = 30
SEAL_SECONDS, SEAL_GB = 1 / 180, 2
"""Seconds a document and memory of the nightly seal, as `tests/benchmarks/nightly_seal.py` measures them."""

SEALED_A_NIGHT = 475_000
"""Documents in four runs of 660 seconds. Of more, the seal takes several nights."""

SEAL_READS, SEAL_WRITES = 3, 0.6
"""Units a document: its version is scanned, and read once more with its key; two leaves of 140 bytes are written, and read
when the next seal is compared."""

LEDGER_WRITES, LEDGER_READS, LEDGER_MESSAGES = 1, 1, 1.2
"""Units and requests of a change's announcement if it is ingested in a quarter of an hour: a lookup in the catalog, and the
worker's delete. If it is later, it takes four writes and three reads: its row is put and deleted, also in the index."""
NETWORK_ENDPOINTS = 6
"""Endpoints of a private network with the default choices, apart from the free ones."""

METRICS_OF_COVERAGE, COVERAGE_REPORTS = 47, 30
"""Gauges by category, and the hours of a month in which they are reported."""

BACKUPS_KEPT = 14 + 12
"""Full copies of the tables: one a day for two weeks, and one a month for a year. Of the bucket, AWS Backup stores each
version of an object once."""

CHANGED_A_MONTH = 0.02
"""Share of the documents that are new or changed in a month, in the table of loads."""

CHUNKS_A_DOCUMENT = 4
MANY_CHUNKS, MANY_QUESTIONS = 1_000_000, 1_000_000
"""From which on a collection is taken to need its greatest capacity to search: an assumption, as AWS publishes no capacity
per unit."""

HOURLY_METRICS = 4
"""Failed items, number and age of changes that are not ingested, and overdue sources; up to 20 when every category with a
schedule has documents."""


@dataclass(frozen=True)
class Scenario:
    """The load of a month: stored and new documents, questions, and hours with a question at least every ten minutes.
    `search_ocus` is the collection's capacity while it is awake."""

    name: str
    documents: int = 0
    chunks: int = 0
    new_documents: int = 0
    questions: int = 0
    search_hours: float = 0.0
    index_hours: float = 0.0
    search_ocus: float = SEARCH_WORKERS
    index_ocus: float = INDEXING_WORKERS


def search_hours(questions: int, hours_of_use: float) -> float:
    """Hours in which a collection is awake, if the questions are spread evenly over these hours of a month."""
    return min(hours_of_use, questions * AWAKE_MINUTES / 60)


def monthly(month: Scenario) -> dict[str, float]:
    """Dollars by service for the default deployment (next generation, gateway, HTTP API, SnapStart, no VPC)."""
    price = PRICES
    new_chunks = month.chunks / month.documents * month.new_documents if month.documents else 0.0
    stored = month.chunks * BYTES_A_CHUNK / GB
    indexed = month.chunks * (2 * BYTES_A_CHUNK + VECTOR_BYTES) / GB
    catalog = (_bytes_of_documents(month) + month.chunks * VECTOR_BYTES) / GB
    ocu_hours = month.search_hours * month.search_ocus + month.index_hours * month.index_ocus
    calls = month.questions + month.new_documents
    active_hours = min(HOURS, month.search_hours + month.index_hours)
    return {
        "OpenSearch Serverless": ocu_hours * price["OpenSearch Serverless, OCU-hour"]
        + indexed * price["OpenSearch Serverless, GB-month"],
        "Embedding": (new_chunks * TOKENS_A_CHUNK + month.questions * 30)
        / 1e6
        * price["Titan Text Embeddings V2, million tokens"],
        "S3": 2 * stored * price["S3, GB-month"]
        + 3 * month.new_documents / 1e3 * price["S3, 1,000 writes"]
        + 3 * month.new_documents / 1e6 * price["S3 events on EventBridge, million"],
        "DynamoDB, but for records of questions": catalog * _stored_gb()
        + ((VERSION_WRITES + GRAPH_WRITES + LEDGER_WRITES) * month.new_documents + 5 * new_chunks)
        / 1e6
        * price["DynamoDB, million writes of 1 KB"]
        + (6 * month.questions + 5 * new_chunks + (GRAPH_READS + LEDGER_READS) * month.new_documents)
        / 1e6
        * price["DynamoDB, million reads of 4 KB"],
        "Records of questions (audit)": sum(records(month, RECORDS_KEPT_DAYS)),
        "Nightly seal": price["Secret, month"] + NIGHTS * _seal(month),
        "Lambda": (month.questions * SEARCH_SECONDS + month.new_documents * INGEST_SECONDS_A_DOCUMENT)
        * price["Lambda arm64, GB-second"]
        + calls / 1e6 * price["Lambda, million calls"],
        "SnapStart": SECONDS * price["SnapStart cache, GB-second"]
        + month.questions / 20 * price["SnapStart restore, GB"],
        "SQS": (QUEUES_POLLED * POLLS_A_MONTH + (3 + LEDGER_MESSAGES) * month.new_documents)
        / 1e6
        * price["SQS, million requests"],
        "HTTP API and gateway": month.questions
        * (price["HTTP API, million requests"] / 1e6 + price["AgentCore Gateway, 1,000 calls"] / 1e3),
        "CloudWatch and the alarms' key": price["KMS key"]
        + ALARM_METRICS * price["CloudWatch alarm"]
        + DASHBOARDS * price["CloudWatch dashboard"]
        + METRICS_OF_COVERAGE * price["CloudWatch metric"] * COVERAGE_REPORTS / HOURS
        + HOURLY_METRICS * price["CloudWatch metric"]
        + METRICS_OF_QUERIES * price["CloudWatch metric"] * active_hours / HOURS
        + calls * LOG_BYTES_A_CALL / GB * price["CloudWatch Logs, GB"],
    }


def _seal(month: Scenario) -> float:
    """Dollars of a night. It reads the head of each object, and scans the audit log of a year."""
    price = PRICES
    documents, answers = min(month.documents, SEALED_A_NIGHT), min(12 * month.questions, MOST_ITEMS)
    units = documents * SEAL_READS + answers * RECORD_BYTES / 4096
    return (
        documents / 1e3 * price["S3, 1,000 reads"]
        + units / 1e6 * price["DynamoDB, million reads of 4 KB"]
        + (documents * SEAL_WRITES + answers * 0.2) / 1e6 * price["DynamoDB, million writes of 1 KB"]
        + documents * SEAL_SECONDS * SEAL_GB * price["Lambda arm64, GB-second"]
    )


def records(month: Scenario, days: int) -> tuple[float, float]:
    """Dollars for writing the records of questions, and for those that are stored for so many days."""
    written = RECORD_WRITES * month.questions / 1e6 * PRICES["DynamoDB, million writes of 1 KB"]
    return written, month.questions * days / 365 * 12 * 2 * RECORD_BYTES / GB * _stored_gb()


def _bytes_of_documents(month: Scenario) -> float:
    return month.documents * (VERSION_BYTES + GRAPH_BYTES)


def _stored_gb() -> float:
    return PRICES["DynamoDB, GB-month"] + PRICES["DynamoDB recovery, GB-month"]


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
    titan, cohere = (PRICES[f"{name}, million tokens"] for name in ("Titan Text Embeddings V2", "Cohere Embed v4"))
    return monthly(month)["Embedding"] / titan * (cohere - titan)


def _backups(month: Scenario) -> float:
    tables = _bytes_of_documents(month) + month.questions * 12 * 2 * RECORD_BYTES
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
        Choice(
            "an alarm or incident a day that wakes the collection (`-c wake_on_alarms=false`: none)", _awake(30 * wake)
        ),
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
