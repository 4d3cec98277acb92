"""What the library needs from the outside. The docstrings are the specification that every adapter is tested against.

Adapters raise `StoreUnavailableError` (or a subclass) when the service behind them fails for now, never a vendor's
error. They don't change what they are given.
"""

from __future__ import annotations

from opx.domain.ids import Clock
from opx.ports.models import Candidate, ChatModel, ChatReply, ChatRequest, Ranking, Reading, Reranker
from opx.ports.objects import ObjectInfo, ObjectStore, SignedPut, Storage, UploadSigner
from opx.ports.queues import Message, Queue, WorkQueue
from opx.ports.search import (
    ChunkCopies,
    CopyChange,
    DocumentChange,
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
    Vector,
    Vectors,
    mean_vector,
)
from opx.ports.tables import Absent, AllOf, AnyOf, Condition, Equals, Item, KeyRange, LessThan, Table, Tables

__all__ = [
    "Absent",
    "AllOf",
    "AnyOf",
    "Candidate",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "ChunkCopies",
    "Clock",
    "Condition",
    "CopyChange",
    "DocumentChange",
    "Embedder",
    "Equals",
    "HeldDocument",
    "IndexEntry",
    "IndexSync",
    "Item",
    "KeyRange",
    "Leg",
    "LessThan",
    "Message",
    "ObjectInfo",
    "ObjectStore",
    "Queue",
    "Ranking",
    "Reading",
    "Reranker",
    "SearchEngine",
    "SearchFilter",
    "SearchIndex",
    "SearchRequest",
    "SearchResponse",
    "SignedPut",
    "Storage",
    "Table",
    "Tables",
    "UploadSigner",
    "Vector",
    "Vectors",
    "WorkQueue",
    "mean_vector",
]
