"""Writes contexts with a language model: a sentence or two that situate each chunk in its document.

A chunk such as "Then restart it." is found by a question about the payment service only if its context names the service.
Contexts are a projection of the corpus, as vectors are: they are embedded and searched, cached, and written again when the
cache has lost them. Chunks, their ids and their files don't depend on them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from opx.domain.documents import DocumentChunk, KnowledgeDocument, Remark, RemarkKind
from opx.domain.ids import batched, stable_hash
from opx.errors import ModelError, StoreUnavailableError
from opx.hygiene.instructions import suspicions
from opx.hygiene.secrets import mask
from opx.hygiene.untrusted import one_line
from opx.ports import Clock, Table
from opx.ports.models import ChatModel, ChatRequest, ModelAnswer

log = logging.getLogger(__name__)


# -- context cache


class ContextCache:
    """Caches contexts in the table of `tables.EMBEDDINGS` for `days`, under keys that no vector has.

    If the table can't be read or written, contexts are written without it.
    """

    def __init__(self, table: Table, *, days: float, clock: Clock = time.time) -> None:
        self._table = table
        self._seconds = days * 86_400
        self._clock = clock

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Cached contexts by key."""
        try:
            items = self._table.get_many([{"cacheKey": key} for key in keys]) if keys else []
        except StoreUnavailableError as exc:
            log.warning("the cache of contexts can't be read, writing all %d: %s", len(keys), exc)
            return {}
        return {item["cacheKey"]: item["context"] for item in items if item.get("context")}

    def forget(self, keys: Sequence[str]) -> None:
        """Deletes contexts. Raises `StoreUnavailableError`."""
        for key in dict.fromkeys(keys):
            self._table.delete({"cacheKey": key})

    def put(self, texts: Mapping[str, str]) -> None:
        expires = int(self._clock() + self._seconds)
        items = [{"cacheKey": key, "context": text, "expiresAt": expires} for key, text in texts.items()]
        try:
            self._table.put_many(items)
        except StoreUnavailableError as exc:
            log.warning("the cache of contexts can't be written, %d are not kept: %s", len(items), exc)


# -- contexts


MAX_CHUNKS = 200
"""Chunks of a document that get contexts, the first ones: 100,000 tokens, and 25 calls."""
CHUNKS_A_CALL = 8
CALLS_AT_ONCE = 4
CALL_SECONDS = 30.0
ROUND_SECONDS = 120.0
"""Time after which a round of documents begins no more calls: a Lambda function has five minutes."""
FAILURES_A_ROUND = 3
"""Failed calls after which no more are begun: the next ones would probably time out, too."""
MAX_CONTEXT_CHARACTERS = 300
MAX_PASSAGE_CHARACTERS = 3000
MAX_OUTLINE_CHARACTERS = 2000
MAX_BEGINNING_CHARACTERS = 2000
_TOKENS_AROUND, _TOKENS_A_CONTEXT = 100, 120
_VERSION = 1
"""Version of the instructions below: contexts of another version are written again."""

INSTRUCTIONS = """\
You help a search engine for an operations team. You get the title, the outline and the beginning of a document, and \
some passages of it, as JSON: "title", "outline", "beginning", and "passages" with "id", "section" and "text". For each \
passage write a context in the document's language: one or two short sentences, at most 40 words, that say what the \
passage is about and what one must know to understand it alone, such as the system, the incident or the step of a \
procedure it belongs to. Name things as the document does. Add nothing that the document doesn't say, no advice and no \
judgement. Give every passage exactly one context, under its id."""

_LIMITED = Remark(RemarkKind.UNREAD_PART, f"contexts are written for the first {MAX_CHUNKS} passages alone")


class _Context(ModelAnswer, frozen=True):
    id: int
    context: str


class _Contexts(ModelAnswer, frozen=True):
    contexts: tuple[_Context, ...]


def are_missing(document: KnowledgeDocument) -> bool:
    """True if contexts of a version are missing because of an error: ingested again, it may get them."""
    return any(remark.kind is RemarkKind.MISSING_CONTEXT for remark in document.remarks)


@dataclass(slots=True)
class Round:
    """Limits for documents that are processed together: a deadline, and the failures left."""

    ends: float
    failures_left: int = FAILURES_A_ROUND


class ContextWriter:
    """Queries a model for contexts of several chunks at a time, but for those in the cache.

    A context that the model fails to write is left out, with a remark: its chunk is found as without contexts. Passages are
    data to the model. Its output is cut, put on one line, and dropped if it contains instructions to a model.
    """

    def __init__(self, chat: ChatModel, cache: ContextCache, *, clock: Clock = time.monotonic) -> None:
        self._chat = chat
        self._cache = cache
        self._clock = clock

    @property
    def name(self) -> str:
        """Identifies the model and the instructions."""
        return f"{self._chat.name} {_VERSION}"

    def kept(self, document: KnowledgeDocument, chunks: Sequence[DocumentChunk]) -> dict[str, str]:
        """Cached contexts of chunks of a version, by chunk id."""
        keys = {chunk.chunk_id: self._key(document, chunk) for chunk in chunks}
        texts = self._cache.get(list(dict.fromkeys(keys.values())))
        return {chunk_id: texts[key] for chunk_id, key in keys.items() if key in texts}

    def forget(self, document: KnowledgeDocument, chunks: Sequence[DocumentChunk]) -> None:
        """Deletes the cached contexts of chunks of a version. Raises `StoreUnavailableError`."""
        self._cache.forget([self._key(document, chunk) for chunk in chunks])

    def new_round(self) -> Round:
        return Round(self._clock() + ROUND_SECONDS)

    def write(
        self, document: KnowledgeDocument, chunks: Iterable[DocumentChunk], current: Round
    ) -> tuple[dict[str, str], list[Remark]]:
        """Contexts by chunk id, and remarks on missing ones with the reason."""
        found = list(islice(chunks, MAX_CHUNKS + 1))
        keys = {chunk.chunk_id: self._key(document, chunk) for chunk in found[:MAX_CHUNKS]}
        texts = self._cache.get(list(dict.fromkeys(keys.values())))
        missing = {keys[chunk.chunk_id]: chunk for chunk in found[:MAX_CHUNKS] if keys[chunk.chunk_id] not in texts}
        remarks = [_LIMITED] if len(found) > MAX_CHUNKS else []
        if missing:
            written, problem = self._written(_about(document, found), missing, current)
            self._cache.put(written)
            texts |= written
            remarks += [Remark(RemarkKind.MISSING_CONTEXT, f"contexts: {problem}")] if problem else []
        return {chunk_id: texts[key] for chunk_id, key in keys.items() if key in texts}, remarks

    def _key(self, document: KnowledgeDocument, chunk: DocumentChunk) -> str:
        """Cache key: a hash of all that a context depends on (model, instructions, the document's text and the chunk's)."""
        return f"context#{stable_hash(self.name, document.content_hash, chunk.own_text)}"

    def _written(
        self, about: Mapping[str, Any], missing: Mapping[str, DocumentChunk], current: Round
    ) -> tuple[dict[str, str], str]:
        """Contexts by key, and the number of missing ones with the first reason."""
        batches = list(batched(missing.items(), CHUNKS_A_CALL))
        written: dict[str, str] = {}
        problems: list[str] = []
        with ThreadPoolExecutor(min(CALLS_AT_ONCE, len(batches)), "contexts") as pool:
            for contexts, problem in pool.map(lambda batch: self._ask(about, batch, current), batches):
                written |= contexts
                problems += [problem] * bool(problem)
        if not problems:
            return written, ""
        log.warning("%d contexts are missing: %s", len(missing) - len(written), problems[0])
        return written, f"{len(missing) - len(written)} missing: {problems[0]}"

    def _ask(
        self, about: Mapping[str, Any], batch: Sequence[tuple[str, DocumentChunk]], current: Round
    ) -> tuple[dict[str, str], str]:
        """Contexts by key, and the problem with the others."""
        if self._clock() >= current.ends or current.failures_left <= 0:
            return {}, "the model failed, or took too long, for documents or passages before these"
        try:
            reply = self._chat.ask(_request(about, [chunk for _, chunk in batch]))
        except ModelError as exc:
            current.failures_left -= 1
            return {}, str(exc)
        contexts: dict[str, str] = {}
        for given in reply.content.contexts:
            text = _usable(given.context)
            if text and 0 <= given.id < len(batch):
                contexts[batch[given.id][0]] = text
        return contexts, "" if len(contexts) == len(batch) else f"{self._chat.name} wrote nothing usable about them"


def _about(document: KnowledgeDocument, chunks: Sequence[DocumentChunk]) -> dict[str, Any]:
    outline = "\n".join(dict.fromkeys(" > ".join(chunk.section) for chunk in chunks if chunk.section))
    return {
        "title": document.title,
        "outline": outline[:MAX_OUTLINE_CHARACTERS],
        "beginning": chunks[0].content[:MAX_BEGINNING_CHARACTERS],
    }


def _request(about: Mapping[str, Any], chunks: Sequence[DocumentChunk]) -> ChatRequest:
    passages = [
        {"id": at, "section": " > ".join(chunk.section), "text": chunk.content[:MAX_PASSAGE_CHARACTERS]}
        for at, chunk in enumerate(chunks)
    ]
    data = json.dumps({**about, "passages": passages}, ensure_ascii=False, indent=1)
    tokens = _TOKENS_AROUND + _TOKENS_A_CONTEXT * len(chunks)
    return ChatRequest(INSTRUCTIONS, data, _Contexts, max_tokens=tokens, seconds=CALL_SECONDS)


def _usable(text: str) -> str:
    """The context as it is indexed: secrets masked and cut; "" if it looks like instructions to a model."""
    masked, _ = mask(one_line(text))
    return "" if suspicions(masked) else masked[:MAX_CONTEXT_CHARACTERS].rstrip()
