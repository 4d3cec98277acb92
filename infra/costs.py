"""Estimates monthly costs from prices and formulas: `python -m infra.costs docs/deploy.md`.

For planning, without free tiers, taxes and support. `docs/deploy.md` lists what the estimates leave out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.constructs.hybrid_index import MAX_OCUS
from infra.diagram import replaced

BEGIN, END = "<!-- costs: begin -->", "<!-- costs: end -->"

PRICES_DATE = "2026-11"
PRICES: Mapping[str, float] = {
    "OpenSearch Serverless, OCU-hour": 0.24,
    "OpenSearch Serverless, GB-month": 0.024,
    "S3, GB-month": 0.023,
    "S3, 1,000 writes": 0.005,
    "S3, 1,000 reads": 0.0004,
    "S3 events on EventBridge, million": 1.00,
    "DynamoDB, million writes of 1 KB": 0.625,
    "DynamoDB, million reads of 4 KB": 0.125,
    "DynamoDB, GB-month": 0.25,
    "DynamoDB recovery, GB-month": 0.20,
    "Lambda arm64, GB-second": 0.0000133334,
    "Lambda, million calls": 0.20,
    "SnapStart cache, GB-second": 0.0000015046,
    "SnapStart restore, GB": 0.0001397998,
    "SQS, million requests": 0.40,
    "HTTP API, million requests": 1.00,
    "AgentCore Gateway, 1,000 calls": 0.005,
    "Titan Text Embeddings V2, million tokens": 0.02,
    "CloudWatch alarm": 0.10,
    "CloudWatch dashboard": 3.00,
    "CloudWatch metric": 0.30,
    "CloudWatch Logs, GB": 0.50,
    "KMS key": 1.00,
    "Interface endpoint, zone-hour": 0.01,
}
"""US dollars in us-east-1."""

HOURS = 730
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

SEARCH_SECONDS, INGEST_SECONDS_A_DOCUMENT = 0.4, 3.0
LOG_BYTES_A_CALL = 4_000
QUEUES_POLLED = 5
POLLS_A_MONTH = 5 * 3 * 60 * 24 * 30
"""Lambda polls a queue five times in parallel, for 20 seconds each, also when it is empty."""

ALARM_METRICS, DASHBOARDS = 44, 3
METRICS_OF_QUERIES = 41
"""Metrics that are billed only for hours with questions or documents."""

RECORD_BYTES = 1_200
RECORD_WRITES = 4
"""Size and write units of a question's audit record: up to 2 KB in the table, and once more in its index."""

RECORDS_KEPT_MONTHS = 12
VERSION_WRITES, VERSION_BYTES = 14, 3_600
"""Write units and size of a document's catalog items, which are in three indexes, too, and of its expiry date."""

GRAPH_WRITES, GRAPH_READS, GRAPH_BYTES = 30, 10, 22_000
"""Units and size of a document's graph items, those of indexes included: as in the example corpus, which has 15 rows per
document, for its passages, nodes and edges."""

METRICS_OF_COVERAGE, COVERAGE_REPORTS = 47, 30
"""Gauges by category, and the hours of a month in which they are reported."""

HOURLY_METRICS = 2
"""Failed items and overdue sources; up to 18 when every category with a schedule has documents."""


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
    records = month.questions * RECORDS_KEPT_MONTHS * 2 * RECORD_BYTES
    catalog = (month.documents * (VERSION_BYTES + GRAPH_BYTES) + month.chunks * VECTOR_BYTES + records) / GB
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
        "DynamoDB": catalog * (price["DynamoDB, GB-month"] + price["DynamoDB recovery, GB-month"])
        + ((VERSION_WRITES + GRAPH_WRITES) * month.new_documents + 5 * new_chunks + RECORD_WRITES * month.questions)
        / 1e6
        * price["DynamoDB, million writes of 1 KB"]
        + (6 * month.questions + 5 * new_chunks + GRAPH_READS * month.new_documents)
        / 1e6
        * price["DynamoDB, million reads of 4 KB"],
        "Lambda": (month.questions * SEARCH_SECONDS + month.new_documents * INGEST_SECONDS_A_DOCUMENT)
        * price["Lambda arm64, GB-second"]
        + calls / 1e6 * price["Lambda, million calls"],
        "SnapStart": SECONDS * price["SnapStart cache, GB-second"]
        + month.questions / 20 * price["SnapStart restore, GB"],
        "SQS": (QUEUES_POLLED * POLLS_A_MONTH + 3 * month.new_documents) / 1e6 * price["SQS, million requests"],
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


def options() -> dict[str, float]:
    """Dollars per month that an option of the deployment adds without any load."""
    price = PRICES
    return {
        "`-c kms_key=own` (in place of the alarms' key)": 0.0,
        "`-c vpc=true` (3 endpoints in 2 zones)": 3 * 2 * HOURS * price["Interface endpoint, zone-hour"],
        "`-c search_generation=classic` (2 OCUs, always)": 2 * HOURS * price["OpenSearch Serverless, OCU-hour"],
        "the same with `-c search_standby=false` (1 OCU)": HOURS * price["OpenSearch Serverless, OCU-hour"],
        "open gaps, queried again once a day (nothing more if there are queries every day anyway)": 30
        * AWAKE_MINUTES
        / 60
        * SEARCH_WORKERS
        * price["OpenSearch Serverless, OCU-hour"],
        "`-c snapstart=false`": -SECONDS * price["SnapStart cache, GB-second"],
    }


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


def tables() -> str:
    """The costs as Markdown tables."""
    months = [monthly(scenario) for scenario in SCENARIOS]
    lines = [f"| US$ a month | {' | '.join(scenario.name for scenario in SCENARIOS)} |"]
    lines.append("|---" * (len(SCENARIOS) + 1) + "|")
    lines += [f"| {service} | {' | '.join(_dollars(month[service]) for month in months)} |" for service in months[0]]
    lines.append(f"| **all** | {' | '.join(f'**{_dollars(sum(month.values()))}**' for month in months)} |")
    lines += ["", "| choice | US$ a month more |", "|---|---|"]
    lines += [f"| {choice} | {_dollars(dollars)} |" for choice, dollars in options().items()]
    return "\n".join(lines)


def _dollars(amount: float) -> str:
    if abs(amount) < 0.005:
        return "0"
    return f"{amount:,.2f}" if abs(amount) < 10 else f"{amount:,.0f}"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(replaced(target.read_text(), tables(), begin=BEGIN, end=END))
