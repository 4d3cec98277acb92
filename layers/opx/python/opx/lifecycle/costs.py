"""Formulas of a month's costs on AWS, from its use and from prices: of planned loads, and of what was counted.

Without free tiers, taxes and support. `docs/deploy.md` lists what the estimates leave out.
"""

from __future__ import annotations

from dataclasses import dataclass

from opx.domain.prices import PRICES

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
QUEUES_POLLED = 6
POLLS_A_MONTH = 5 * 3 * 60 * 24 * 30
"""Lambda polls a queue five times in parallel, for 20 seconds each, also when it is empty."""

ALARM_METRICS, DASHBOARDS = 83, 3
METRICS_OF_QUERIES = 41
"""Metrics that are billed only for hours with questions or documents."""

RECORD_BYTES = 1_200
RECORD_WRITES = 4
"""Size and write units of a question's audit record: up to 2 KB in the table, and once more in its index."""

RECORDS_KEPT_DAYS = 365
VERSION_WRITES, VERSION_BYTES = 14, 3_600
"""Write units and size of a document's catalog items, which are in three indexes, too, and of its expiry date."""

GRAPH_WRITES, GRAPH_READS, GRAPH_BYTES = 30, 10, 22_000
"""Units and size of a document's graph items, those of indexes included: as in the example corpus, which has 15 rows per
document, for its passages, nodes and edges."""

NIGHTS = 30
SEAL_SECONDS, SEAL_GB = 1 / 180, 2
"""Seconds a document and memory of the nightly seal, as measured (docs/decisions/0079-storage-that-proves-itself.md)."""

SEALED_A_NIGHT = 475_000
"""Documents in four runs of 660 seconds. Of more, the seal takes several nights."""

MOST_SEALED = 2_000_000
"""Items of a run of the seal in a function: their leaves and those of the last seal take 650 bytes of memory each."""

SEAL_READS, SEAL_WRITES = 3, 0.6
"""Units a document: its version is scanned, and read once more with its key; two leaves of 140 bytes are written, and read
when the next seal is compared."""

LEDGER_WRITES, LEDGER_READS, LEDGER_MESSAGES = 1, 1, 1.2
"""Units and requests of a change's announcement if it is ingested in a quarter of an hour: a lookup in the catalog, and the
worker's delete. If it is later, it takes four writes and three reads: its row is put and deleted, also in the index."""

METRICS_OF_COVERAGE, COVERAGE_REPORTS = 47, 30
"""Gauges by category, and the hours of a month in which they are reported."""

HOURLY_METRICS = 4
"""Failed items, number and age of changes that are not ingested, and overdue sources; up to 20 when every category with a
schedule has documents."""


TITAN, COHERE = "Titan Text Embeddings V2", "Cohere Embed v4"
"""Embedding models with a price."""


@dataclass(frozen=True)
class Scenario:
    """The load of a month, or of so many `hours` of it: stored and new documents, questions, and hours with a question at
    least every ten minutes. `search_ocus` is the collection's capacity while it is awake. `new_tokens` are those that were
    embedded; None: as many as new documents of the usual size have."""

    name: str
    documents: float = 0
    chunks: float = 0
    new_documents: int = 0
    questions: int = 0
    search_hours: float = 0.0
    index_hours: float = 0.0
    search_ocus: float = SEARCH_WORKERS
    index_ocus: float = INDEXING_WORKERS
    hours: float = HOURS
    new_tokens: int | None = None
    embedding: str = TITAN

    @property
    def share(self) -> float:
        """Share of a month."""
        return self.hours / HOURS

    @property
    def new_chunks(self) -> float:
        if self.new_tokens is not None:
            return self.new_tokens / TOKENS_A_CHUNK
        return self.chunks / self.documents * self.new_documents if self.documents else 0.0


def search_hours(questions: int, hours_of_use: float) -> float:
    """Hours in which a collection is awake, if the questions are spread evenly over these hours of a month."""
    return min(hours_of_use, questions * AWAKE_MINUTES / 60)


def monthly(month: Scenario) -> dict[str, float]:
    """Dollars by service for the default deployment (next generation, gateway, HTTP API, SnapStart, no VPC)."""
    return {
        "OpenSearch Serverless": _collection(month),
        "Embedding": (month.new_chunks * TOKENS_A_CHUNK + month.questions * 30)
        / 1e6
        * PRICES[f"{month.embedding}, million tokens"],
        "S3": _bucket(month),
        "DynamoDB, but for records of questions": _tables(month),
        "Records of questions (audit)": sum(records(month, RECORDS_KEPT_DAYS)),
        "Nightly seal": month.share * (PRICES["Secret, month"] + NIGHTS * _seal(month)),
        "Lambda": (month.questions * SEARCH_SECONDS + month.new_documents * INGEST_SECONDS_A_DOCUMENT)
        * PRICES["Lambda arm64, GB-second"]
        + _calls(month) / 1e6 * PRICES["Lambda, million calls"],
        "SnapStart": month.share * SECONDS * PRICES["SnapStart cache, GB-second"]
        + month.questions / 20 * PRICES["SnapStart restore, GB"],
        "SQS": (month.share * QUEUES_POLLED * POLLS_A_MONTH + (3 + LEDGER_MESSAGES) * month.new_documents)
        / 1e6
        * PRICES["SQS, million requests"],
        "HTTP API and gateway": month.questions
        * (PRICES["HTTP API, million requests"] / 1e6 + PRICES["AgentCore Gateway, 1,000 calls"] / 1e3),
        "CloudWatch and the alarms' key": _monitoring(month),
    }


def _calls(month: Scenario) -> int:
    return month.questions + month.new_documents


def _collection(month: Scenario) -> float:
    indexed = month.chunks * (2 * BYTES_A_CHUNK + VECTOR_BYTES) / GB
    ocu_hours = month.search_hours * month.search_ocus + month.index_hours * month.index_ocus
    return (
        ocu_hours * PRICES["OpenSearch Serverless, OCU-hour"]
        + month.share * indexed * PRICES["OpenSearch Serverless, GB-month"]
    )


def _bucket(month: Scenario) -> float:
    return (
        month.share * 2 * month.chunks * BYTES_A_CHUNK / GB * PRICES["S3, GB-month"]
        + 3 * month.new_documents / 1e3 * PRICES["S3, 1,000 writes"]
        + 3 * month.new_documents / 1e6 * PRICES["S3 events on EventBridge, million"]
    )


def _tables(month: Scenario) -> float:
    """Dollars of DynamoDB, but for the audit log."""
    catalog = (bytes_of_documents(month) + month.chunks * VECTOR_BYTES) / GB
    new_chunks = month.new_chunks
    writes = (VERSION_WRITES + GRAPH_WRITES + LEDGER_WRITES) * month.new_documents + 5 * new_chunks
    reads = 6 * month.questions + 5 * new_chunks + (GRAPH_READS + LEDGER_READS) * month.new_documents
    return (
        month.share * catalog * _stored_gb()
        + writes / 1e6 * PRICES["DynamoDB, million writes of 1 KB"]
        + reads / 1e6 * PRICES["DynamoDB, million reads of 4 KB"]
    )


def _monitoring(month: Scenario) -> float:
    """Dollars of CloudWatch, and of the alarms' key."""
    metric = PRICES["CloudWatch metric"]
    active_hours = min(month.hours, month.search_hours + month.index_hours)
    fixed = (
        PRICES["KMS key"]
        + ALARM_METRICS * PRICES["CloudWatch alarm"]
        + DASHBOARDS * PRICES["CloudWatch dashboard"]
        + METRICS_OF_COVERAGE * metric * COVERAGE_REPORTS / HOURS
        + HOURLY_METRICS * metric
    )
    return (
        month.share * fixed
        + METRICS_OF_QUERIES * metric * active_hours / HOURS
        + _calls(month) * LOG_BYTES_A_CALL / GB * PRICES["CloudWatch Logs, GB"]
    )


def _seal(month: Scenario) -> float:
    """Dollars of a night. It reads the head of each object, and scans the audit log of a year."""
    price = PRICES
    a_year = 12 * month.questions / month.share if month.share else 0.0
    documents, answers = min(month.documents, SEALED_A_NIGHT), min(a_year, MOST_SEALED)
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


def bytes_of_documents(month: Scenario) -> float:
    """Bytes of their items in tables."""
    return month.documents * (VERSION_BYTES + GRAPH_BYTES)


def _stored_gb() -> float:
    return PRICES["DynamoDB, GB-month"] + PRICES["DynamoDB recovery, GB-month"]
