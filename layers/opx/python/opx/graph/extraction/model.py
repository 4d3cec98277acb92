"""Extracts edges from passages with a language model, which must quote its evidence.

The model proposes, and rules decide: an edge is kept only if its quotation is in the passage, both nodes are named there,
and its type is one of a few. So a passage with instructions to the model adds no edge that it doesn't state. Results are
cached by the content of the passage.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Protocol

from msgspec import Meta, field

from opx.domain.documents import DocumentChunk, Remark, RemarkKind
from opx.domain.graph import EdgeStatement, NodeStatement
from opx.domain.ids import batched, stable_hash
from opx.errors import ModelError
from opx.graph.extraction.material import Findings, Material, Passages
from opx.graph.extraction.own_node import make_reference
from opx.hygiene.instructions import suspicions
from opx.ports import Clock
from opx.ports.models import ChatModel, ChatRequest, ModelAnswer

RULE = "model"
CONFIDENCE = 0.6

MAX_PASSAGES = 100
"""Passages of a document that the model reads, in order."""
PASSAGES_A_CALL = 4
CALLS_AT_ONCE = 4
CALL_SECONDS = 20.0
DOCUMENT_SECONDS = 20.0
"""Seconds after which no more calls are started for a document."""
FAILURES = 3
PAUSE_SECONDS = 60.0
"""Pause without calls after `FAILURES` failures in a row, so that other documents don't wait for the same failure."""
MAX_PASSAGE_CHARACTERS = 3_000
MAX_RELATIONS = 12
"""Edges per passage."""
_TOKENS_AROUND, _TOKENS_A_RELATION = 100, 110
_VERSION = 1
"""Version of the instructions and rules below: results of other versions are not used."""

log = logging.getLogger(__name__)

MIN_QUOTE, MAX_QUOTE = 12, 400
MAX_NAME = 100

NODE_KINDS = ("service", "host", "alert", "product", "team", "user", "incident", "change")
RELATIONS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "depends_on": (frozenset(("service",)), frozenset(("service",))),
    "runs": (frozenset(("service", "host")), frozenset(("product",))),
    "hosted_on": (frozenset(("service",)), frozenset(("host",))),
    "owned_by": (frozenset(("service", "host", "product")), frozenset(("team", "user"))),
    "fires_on": (frozenset(("alert",)), frozenset(("service", "host"))),
    "affects": (frozenset(("incident", "change")), frozenset(("service", "host"))),
    "caused": (frozenset(("change",)), frozenset(("incident",))),
    "resolved_by": (frozenset(("incident",)), frozenset(("change",))),
}
"""Permitted edge types, with the permitted types of their ends."""

INSTRUCTIONS = f"""\
You read passages of an operations team's documents, given as JSON: "passages" with "id" and "text". Find relations that \
a passage states outright between two things that it names. Kinds of things: {", ".join(NODE_KINDS)}. Relations: \
{"; ".join(f"{name} (from {'/'.join(sorted(a))} to {'/'.join(sorted(b))})" for name, (a, b) in RELATIONS.items())}. \
For each give the passage's id, the two names exactly as the passage writes them, their kinds, the relation, and as \
"quote" the words of the passage that state it, both names among them, copied without any change. Leave out what is \
only likely, what is denied, and examples. Most passages state none."""


class Texts(Protocol):
    """A cache of strings; see `ContextCache`."""

    def get(self, keys: Sequence[str]) -> dict[str, str]: ...

    def put(self, texts: Mapping[str, str]) -> None: ...


class ModelExtraction:
    """Sends several uncached passages per call. Failures of the model are left out and reported in remarks. Passages with
    suspected instructions are not sent."""

    def __init__(self, chat: ChatModel, cache: Texts, *, clock: Clock = time.monotonic) -> None:
        self._chat = chat
        self._cache = cache
        self._clock = clock
        self._failures_in_a_row = 0
        self._paused_until = 0.0

    def relations(self, material: Material, passages: Passages, findings: Findings) -> None:
        """A rule for all passages: the edges that the model finds, from the cache where it has them."""
        chunks = list(islice(passages(), MAX_PASSAGES + 1))
        if len(chunks) > MAX_PASSAGES:
            findings.remarks.append(_remark(f"a model reads only the first {MAX_PASSAGES} passages"))
        harmless = (one for one in chunks[:MAX_PASSAGES] if not any(map(suspicions, one.content.splitlines())))
        name = self._chat.name
        keys = {one.chunk_id: f"relations#{stable_hash(name, _VERSION, one.content)}" for one in harmless}
        known = self._cache.get(list(dict.fromkeys(keys.values())))
        missing = {
            keys[one.chunk_id]: one for one in chunks if one.chunk_id in keys and keys[one.chunk_id] not in known
        }
        if missing:
            found, problem = self._read(missing)
            self._cache.put(found)
            known |= found
            if problem:
                left = len(missing) - len(found)
                log.warning(
                    "%s: relations of %d passages are missing: %s", material.document.document_id, left, problem
                )
                findings.remarks.append(
                    _remark(f"relations of {left} passages that a model reads are missing: {problem}")
                )
        for chunk_id, key in keys.items():
            findings.add(*_statements(known.get(key, "[]"), chunk_id))

    def _read(self, missing: Mapping[str, DocumentChunk]) -> tuple[dict[str, str], str]:
        """Results by cache key, and the first problem; "" without one."""
        batches = list(batched(missing.items(), PASSAGES_A_CALL))
        ends = self._clock() + DOCUMENT_SECONDS
        found: dict[str, str] = {}
        problems: list[str] = []
        with ThreadPoolExecutor(min(CALLS_AT_ONCE, len(batches)), "relations") as pool:
            for texts, problem in pool.map(lambda batch: self._ask(batch, ends), batches):
                found |= texts
                problems += [problem] * bool(problem)
        return found, problems[0] if problems else ""

    def _ask(self, batch: Sequence[tuple[str, DocumentChunk]], ends: float) -> tuple[dict[str, str], str]:
        now = self._clock()
        if now >= ends or now < self._paused_until:
            return {}, "the model failed or timed out for earlier documents or passages"
        try:
            reply = self._chat.ask(_request([chunk for _, chunk in batch]))
        except ModelError as exc:
            self._failures_in_a_row += 1
            if self._failures_in_a_row >= FAILURES:
                self._failures_in_a_row, self._paused_until = 0, self._clock() + PAUSE_SECONDS
            return {}, str(exc)
        self._failures_in_a_row = 0
        found: list[list[FoundRelation]] = [[] for _ in batch]
        for given in reply.content.relations:
            at = given.id
            relation = proven(given, batch[at][1].content) if 0 <= at < len(batch) else None
            if relation and relation not in found[at] and len(found[at]) < MAX_RELATIONS:
                found[at].append(relation)
        return {key: _cached(of) for (key, _), of in zip(batch, found, strict=True)}, ""


def _cached(found: Iterable[FoundRelation]) -> str:
    return json.dumps([[one.source, one.edge_type, one.target, *one.names] for one in found], ensure_ascii=False)


def _statements(text: str, chunk_id: str) -> Iterator[NodeStatement | EdgeStatement]:
    where = (chunk_id,)
    for source, edge_type, target, *names in json.loads(text):
        for key, name in zip((source, target), names, strict=True):
            yield NodeStatement(key, key.partition(":")[0], {"name": name}, where)
        yield EdgeStatement(source, edge_type, target, where, rule=RULE, confidence=CONFIDENCE)


def _remark(text: str) -> Remark:
    return Remark(RemarkKind.LEFT_OUT_OF_GRAPH, text)


def _request(chunks: Sequence[DocumentChunk]) -> ChatRequest:
    passages = [{"id": at, "text": chunk.content[:MAX_PASSAGE_CHARACTERS]} for at, chunk in enumerate(chunks)]
    data = json.dumps({"passages": passages}, ensure_ascii=False, indent=1)
    tokens = _TOKENS_AROUND + _TOKENS_A_RELATION * MAX_RELATIONS * len(chunks) // 2
    return ChatRequest(INSTRUCTIONS, data, Relations, max_tokens=tokens, seconds=CALL_SECONDS)


@dataclass(frozen=True, slots=True)
class FoundRelation:
    """A verified edge, as it is cached."""

    source: str
    edge_type: str
    target: str
    names: tuple[str, str]


def _one_of(names: Iterable[str]) -> Meta:
    return Meta(pattern=f"^({'|'.join(names)})$", extra_json_schema={"enum": list(names)})


class _Thing(ModelAnswer, frozen=True):
    kind: Annotated[str, _one_of(NODE_KINDS)]
    name: str


class StatedRelation(ModelAnswer, frozen=True):
    """An edge that a model returned for the passage `id`."""

    id: int
    source: _Thing = field(name="from")
    relation: Annotated[str, _one_of(RELATIONS)]
    target: _Thing = field(name="to")
    quote: str


class Relations(ModelAnswer, frozen=True):
    relations: tuple[StatedRelation, ...]


def proven(given: StatedRelation, text: str) -> FoundRelation | None:
    """The edge that a model returned, if the passage contains its quotation, the quotation contains both names, and the edge
    type is permitted; else None."""
    name, kinds = given.relation, (given.source.kind, given.target.kind)
    allowed = RELATIONS.get(name)
    if allowed is None or kinds[0] not in allowed[0] or kinds[1] not in allowed[1]:
        return None
    quote, passage = _folded(given.quote), _folded(text)
    ends = (given.source.name.strip(), given.target.name.strip())
    if not MIN_QUOTE <= len(quote) <= MAX_QUOTE or quote not in passage:
        return None
    if not all(0 < len(end) <= MAX_NAME and _names(quote, _folded(end)) for end in ends):
        return None
    source, target = make_reference(kinds[0], ends[0]), make_reference(kinds[1], ends[1])
    return FoundRelation(source, name, target, ends) if source and target and source != target else None


def _names(text: str, name: str) -> bool:
    """True if the text contains the name as whole words."""
    at = text.find(name) if name else -1
    while at >= 0:
        before, after = text[max(0, at - 1) : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or after.isalnum()):
            return True
        at = text.find(name, at + 1)
    return False


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
