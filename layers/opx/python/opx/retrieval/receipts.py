"""Records questions, the state of the corpus and answers as receipts, verifies them, and replays them.

A receipt contains only data that its caller saw, and hashes instead of documents' text. `sha256` detects accidents and
careless changes; a wholly forged receipt is detected by the audit log, which has its `answerHash`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from opx import __version__
from opx.domain.ids import content_hash
from opx.domain.queries import QueryConfig
from opx.domain.record import Record, replace
from opx.domain.results import Answer, RetrievalResult
from opx.errors import InvalidInputError, OpxError
from opx.ports.search import CorpusState

RECEIPT_VERSION = 1
_DIGITS = 6
_LARGEST_SCORE = 1e6
_TEXTS = ("receiptId", "askedAt", "question", "readerHash", "corpusVersion", "answerHash", "sha256")

Receipt = Mapping[str, Any]


class TamperedReceiptError(OpxError):
    """A receipt was changed after it was issued."""


class RecordedQuestion(Struct, frozen=True):
    """A question with the circumstances of its answer. `models` are names and versions of the models that find and rank."""

    receipt_id: str
    asked_at: str
    question: str
    config: QueryConfig
    reader_hash: str
    corpus: CorpusState
    models: Mapping[str, str]


def receipt_of(recorded: RecordedQuestion, answer: Answer) -> dict[str, Any]:
    """Builds the receipt of an answer."""
    results = _results(answer)
    content: dict[str, Any] = {
        "version": RECEIPT_VERSION,
        "receiptId": recorded.receipt_id,
        "askedAt": recorded.asked_at,
        "question": recorded.question,
        "config": plain_config(recorded.config),
        "readerHash": recorded.reader_hash,
        "corpusVersion": recorded.corpus.version,
        "settled": recorded.corpus.settled,
        "models": {**recorded.models, "ranker": answer.ranked_by, "opx": __version__},
        **({"outcomes": answer.outcomes} if answer.outcomes else {}),
        "results": results,
        "partial": answer.partial,
        "notes": list(answer.notes),
        "answerHash": _hash_of_results(results),
    }
    return {**content, "sha256": _sha256(content)}


def plain_config(config: QueryConfig) -> dict[str, Any]:
    """The configuration as plain JSON of strings, numbers and lists, equal to the one read back from a file."""
    found: dict[str, Any] = json.loads(json.dumps(config.to_json()))
    return found


def answer_hash(answer: Answer) -> str:
    """Hash of the passages of an answer in their order. Results of a live search of the web, scores and durations are not
    part of it."""
    return _hash_of_results(_results(answer))


def _results(answer: Answer) -> list[dict[str, Any]]:
    return [_result(rank, result) for rank, result in enumerate(answer.results, start=1)]


def _hash_of_results(results: Sequence[Mapping[str, Any]]) -> str:
    return _sha256([[each["documentId"], each["chunkId"], each["contentHash"]] for each in results if not each["live"]])


def is_live(result: RetrievalResult) -> bool:
    """True if it was fetched from the web for this question, so that a replay may return another."""
    return not result.document_id


def _result(rank: int, result: RetrievalResult) -> dict[str, Any]:
    return {
        "rank": rank,
        "documentId": result.document_id,
        "chunkId": str(result.metadata.get("chunkId", "")),
        "title": result.title,
        "source": result.source,
        "contentHash": _hash_of(result.content),
        "confidence": round(result.confidence, _DIGITS),
        "score": round(result.score, _DIGITS),
        "live": is_live(result),
    }


_hash_of = lru_cache(256)(content_hash)
"""An answer's passages are hashed for its record and for its receipt."""


def _sha256(content: object) -> str:
    canonical = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def read_receipt(text: str) -> Receipt:
    """Parses and verifies a receipt. Raises `InvalidInputError` if it is none, and `TamperedReceiptError`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInputError("this is no receipt: it is not JSON") from None
    if not isinstance(found, dict) or not {"version", "sha256"} <= found.keys():
        raise InvalidInputError("this is no receipt: `opx search --receipt FILE` writes one")
    if found["version"] != RECEIPT_VERSION:
        raise InvalidInputError(f"this receipt has version {found['version']!r:.20}; opx {__version__} reads version 1")
    content = {name: value for name, value in found.items() if name != "sha256"}
    try:
        genuine = _sha256(content) == found["sha256"]
    except RecursionError:
        genuine = False
    if not genuine:
        raise TamperedReceiptError("the receipt was changed after it was issued: its sha256 doesn't match its content")
    _check_shape(found)
    if _hash_of_results(found["results"]) != found["answerHash"]:
        raise TamperedReceiptError(
            "the receipt was changed after it was issued: its results don't match its answerHash"
        )
    return found


def _check_shape(found: Receipt) -> None:
    texts = all(isinstance(found.get(name), str) for name in _TEXTS)
    objects = all(isinstance(found.get(name), dict) for name in ("config", "models"))
    results, notes = found.get("results"), found.get("notes")
    lists = isinstance(results, list) and isinstance(notes, list) and all(map(_is_result, results))
    if not (texts and objects and lists):
        raise InvalidInputError("this is no receipt: fields are missing, or of another kind")


def _is_result(result: object) -> bool:
    if not isinstance(result, dict):
        return False
    texts = all(isinstance(result.get(name), str) for name in ("documentId", "chunkId", "contentHash", "title"))
    score = result.get("score")
    number = isinstance(score, int | float) and abs(score) <= _LARGEST_SCORE
    return texts and number and isinstance(result.get("live"), bool)


def config_of(receipt: Receipt) -> QueryConfig:
    """The configuration of the question. Raises `InvalidInputError`."""
    return QueryConfig.from_json(receipt["config"])


# -- replaying


_TOLERANCE = 1.5e-6
"""Scores are compared to six digits, of which the last may be rounded either way."""

AskAgain = Callable[[str, QueryConfig], Receipt]
"""Answers a question as the caller of the replay, and returns the new receipt."""


class ReplayVerdict(StrEnum):
    """`SAME`: the same answer. `CHANGED`: another one, for the reasons in `causes`. `UNEXPLAINED`: another one, although
    neither the corpus nor anything else is known to have changed."""

    SAME = "same"
    CHANGED = "changed"
    UNEXPLAINED = "unexplained"


class ReplayDifference(Record, frozen=True):
    """A passage that is `new`, `gone`, has `moved` to another rank, has another `text`, or another `score`."""

    kind: str
    document_id: str
    title: str
    before: str
    now: str


class Replay(Record, frozen=True):
    """Outcome of a replay. `causes` are changes other than those of the answer."""

    verdict: ReplayVerdict
    causes: tuple[str, ...]
    differences: tuple[ReplayDifference, ...]
    receipt: Receipt


def replay(receipt: Receipt, ask: AskAgain, *, then: bool = False) -> Replay:
    """Answers the question of a receipt again and compares; with `then`, as of the receipt's time, whose scores depend a
    little on later documents and are not compared.

    The answer has only documents visible to the caller now: a receipt grants no access. If the answer differs for no known
    reason, the question is answered once more: the corpus may have been changed meanwhile.
    """
    config = config_of(receipt)
    if then and not config.as_of:
        config = replace(config, as_of=receipt["askedAt"])
    again = ask(receipt["question"], config)
    found = _compared(receipt, again, scores=not then)
    if found.verdict is ReplayVerdict.UNEXPLAINED:
        once_more = ask(receipt["question"], config)
        if once_more["corpusVersion"] != again["corpusVersion"]:
            found = _compared(receipt, once_more, scores=not then)
    return found


def _compared(before: Receipt, now: Receipt, *, scores: bool) -> Replay:
    causes = tuple(_causes(before, now))
    found = _differences(_own(before), _own(now))
    differences = tuple(each for each in found if scores or each.kind != "score")
    otherwise = ReplayVerdict.CHANGED if causes else ReplayVerdict.UNEXPLAINED
    return Replay(otherwise if differences else ReplayVerdict.SAME, causes, differences, now)


def _causes(before: Receipt, now: Receipt) -> Iterator[str]:
    versions = before["corpusVersion"], now["corpusVersion"]
    if "" in versions:
        yield "the search service doesn't say of which version its corpus is"
    elif versions[0] != versions[1]:
        yield "corpus changed since: " + " -> ".join(_without_common(*versions))
    elif not (before.get("settled", True) and now.get("settled", True)):
        yield "the corpus had just been changed: not every search found the change yet"
    if before.get("outcomes", "") != now.get("outcomes", ""):
        yield "outcomes that adjust scores were recorded since, or are visible to only one of the two callers"
    if before["readerHash"] != now["readerHash"]:
        yield "the caller may see other documents than the caller then"
    for name in sorted(before["models"].keys() | now["models"].keys()):
        was, is_ = before["models"].get(name, "-"), now["models"].get(name, "-")
        if was != is_:
            yield f"{name} was {was}, is {is_}"
    for when, receipt in (("then", before), ("now", now)):
        if receipt.get("partial"):
            yield f"the answer is partial {when}: " + ("; ".join(map(str, receipt.get("notes", []))) or "see its notes")


def _without_common(before: str, now: str) -> tuple[str, str]:
    """Two corpus versions, without the name of the index if both have the same."""
    (old, _, count), (new, _, count_now) = before.rpartition("."), now.rpartition(".")
    return (count, count_now) if old == new else (before, now)


def _own(receipt: Receipt) -> Sequence[Mapping[str, Any]]:
    """Results that were not fetched from the web for the question."""
    return [result for result in receipt["results"] if not result["live"]]


def _differences(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[ReplayDifference]:
    was = {(result["documentId"], result["chunkId"]): (rank, result) for rank, result in enumerate(before, start=1)}
    is_ = {(result["documentId"], result["chunkId"]): (rank, result) for rank, result in enumerate(now, start=1)}
    for key, (rank, result) in was.items():
        if key not in is_:
            yield ReplayDifference("gone", result["documentId"], result["title"], f"#{rank}", "-")
    for key, (rank, result) in is_.items():
        if key not in was:
            yield ReplayDifference("new", result["documentId"], result["title"], "-", f"#{rank}")
            continue
        yield from _of_both(was[key], (rank, result))


def _of_both(was: tuple[int, Mapping[str, Any]], now: tuple[int, Mapping[str, Any]]) -> Iterator[ReplayDifference]:
    (before_rank, before), (rank, result) = was, now
    document, title = result["documentId"], result["title"]
    if before_rank != rank:
        yield ReplayDifference("moved", document, title, f"#{before_rank}", f"#{rank}")
    if before["contentHash"] != result["contentHash"]:
        yield ReplayDifference("text", document, title, before["contentHash"][:12], result["contentHash"][:12])
    if abs(before["score"] - result["score"]) > _TOLERANCE:
        yield ReplayDifference("score", document, title, f"{before['score']:.6f}", f"{result['score']:.6f}")
