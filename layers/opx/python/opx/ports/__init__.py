"""Ports: interfaces of the library to the outside. The docstrings specify what every adapter is tested against.

Adapters raise `StoreUnavailableError` (or a subclass) when the service behind them is temporarily unavailable, never a
vendor's error. They don't mutate their arguments.
"""

from __future__ import annotations

from opx.domain.ids import Clock
from opx.ports.models import Candidate, CandidateReading, ChatModel, ChatReply, ChatRequest, Ranking, Reranker
from opx.ports.objects import ObjectInfo, ObjectStore, PartedUploads, SignedUpload, Storage, UploadSigner
from opx.ports.queues import Message, Queue, WorkQueue
from opx.ports.search import (
    ChunkCopies,
    CopyChange,
    DocumentChange,
    DocumentFacts,
    Embedder,
    HeldDocument,
    IndexEntry,
    IndexSync,
    Leg,
    SearchEngine,
    SearchFilter,
    SearchIndex,
    SearchRequest,
    SearchResponse,
    StoredRecord,
    Vector,
    Vectors,
    cosine,
    mean_vector,
)
from opx.ports.tables import (
    AllOf,
    AnyOf,
    Condition,
    Equals,
    Item,
    ItemPage,
    KeyAbsent,
    KeyRange,
    LessThan,
    Table,
    Tables,
)

__all__ = [
    "AllOf",
    "AnyOf",
    "Candidate",
    "CandidateReading",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "ChunkCopies",
    "Clock",
    "Condition",
    "CopyChange",
    "DocumentChange",
    "DocumentFacts",
    "Embedder",
    "Equals",
    "HeldDocument",
    "IndexEntry",
    "IndexSync",
    "Item",
    "ItemPage",
    "KeyAbsent",
    "KeyRange",
    "Leg",
    "LessThan",
    "Message",
    "ObjectInfo",
    "ObjectStore",
    "PartedUploads",
    "Queue",
    "Ranking",
    "Reranker",
    "SearchEngine",
    "SearchFilter",
    "SearchIndex",
    "SearchRequest",
    "SearchResponse",
    "SignedUpload",
    "Storage",
    "StoredRecord",
    "Table",
    "Tables",
    "UploadSigner",
    "Vector",
    "Vectors",
    "WorkQueue",
    "cosine",
    "mean_vector",
]
