"""A receipt's question asked again, and what is different now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from opx.domain.queries import QueryConfig
from opx.domain.record import Record, replace
from opx.retrieval.receipts import Receipt, config_of

_TOLERANCE = 1.5e-6
"""Scores are compared to six digits, of which the last may be rounded either way."""

AskAgain = Callable[[str, QueryConfig], Receipt]
"""Asks as whoever replays, and gives the receipt of that."""


class Verdict(StrEnum):
    """`SAME`: the same answer. `CHANGED`: another one, and `causes` say why. `UNEXPLAINED`: another one, although
    neither the corpus nor anything else is known to have changed."""

    SAME = "same"
    CHANGED = "changed"
    UNEXPLAINED = "unexplained"


class Difference(Record, frozen=True):
    """A passage that is `new`, `gone`, has `moved` to another rank, has another `text`, or another `score`."""

    kind: str
    document_id: str
    title: str
    before: str
    now: str


class Replay(Record, frozen=True):
    """What came of it. `causes` say what else than the answer has changed."""

    verdict: Verdict
    causes: tuple[str, ...]
    differences: tuple[Difference, ...]
    receipt: Receipt


def replay(receipt: Receipt, ask: AskAgain, *, then: bool = False) -> Replay:
    """Ask the question of a receipt again and compare; with `then`, ask for what the knowledge of then says, whose
    scores depend a little on what came since and are not compared.

    The answer is what whoever asks may see now: a receipt opens nothing. Where the answer is another one for no reason
    that can be seen, it is asked for once more: the corpus may have been changed while it was asked.
    """
    config = config_of(receipt)
    if then and not config.as_of:
        config = replace(config, as_of=receipt["askedAt"])
    again = ask(receipt["question"], config)
    found = _compared(receipt, again, scores=not then)
    if found.verdict is Verdict.UNEXPLAINED:
        once_more = ask(receipt["question"], config)
        if once_more["corpusVersion"] != again["corpusVersion"]:
            found = _compared(receipt, once_more, scores=not then)
    return found


def _compared(before: Receipt, now: Receipt, *, scores: bool) -> Replay:
    causes = tuple(_causes(before, now))
    found = _differences(_own(before), _own(now))
    differences = tuple(each for each in found if scores or each.kind != "score")
    otherwise = Verdict.CHANGED if causes else Verdict.UNEXPLAINED
    return Replay(otherwise if differences else Verdict.SAME, causes, differences, now)


def _causes(before: Receipt, now: Receipt) -> Iterator[str]:
    versions = before["corpusVersion"], now["corpusVersion"]
    if "" in versions:
        yield "the search service doesn't say of which version its corpus is"
    elif versions[0] != versions[1]:
        yield "corpus changed since: " + " -> ".join(_without_common(*versions))
    elif not (before.get("settled", True) and now.get("settled", True)):
        yield "the corpus had just been changed: not every search found the change yet"
    if before.get("outcomes", "") != now.get("outcomes", ""):
        yield "outcomes that move scores were told since, or may be seen by one of both alone"
    if before["readerHash"] != now["readerHash"]:
        yield "whoever asks now may see other documents than whoever asked then"
    for name in sorted(before["models"].keys() | now["models"].keys()):
        was, is_ = before["models"].get(name, "-"), now["models"].get(name, "-")
        if was != is_:
            yield f"{name} was {was}, is {is_}"
    for when, receipt in (("then", before), ("now", now)):
        if receipt.get("partial"):
            yield f"the answer is partial {when}: " + ("; ".join(map(str, receipt.get("notes", []))) or "see its notes")


def _without_common(before: str, now: str) -> tuple[str, str]:
    """Two versions without the name of the index, if it is the same one."""
    (old, _, count), (new, _, count_now) = before.rpartition("."), now.rpartition(".")
    return (count, count_now) if old == new else (before, now)


def _own(receipt: Receipt) -> Sequence[Mapping[str, Any]]:
    """Without what was fetched from the web for the question."""
    return [result for result in receipt["results"] if not result["live"]]


def _differences(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[Difference]:
    was = {(result["documentId"], result["chunkId"]): (rank, result) for rank, result in enumerate(before, start=1)}
    is_ = {(result["documentId"], result["chunkId"]): (rank, result) for rank, result in enumerate(now, start=1)}
    for key, (rank, result) in was.items():
        if key not in is_:
            yield Difference("gone", result["documentId"], result["title"], f"#{rank}", "-")
    for key, (rank, result) in is_.items():
        if key not in was:
            yield Difference("new", result["documentId"], result["title"], "-", f"#{rank}")
            continue
        yield from _of_both(was[key], (rank, result))


def _of_both(was: tuple[int, Mapping[str, Any]], now: tuple[int, Mapping[str, Any]]) -> Iterator[Difference]:
    (before_rank, before), (rank, result) = was, now
    document, title = result["documentId"], result["title"]
    if before_rank != rank:
        yield Difference("moved", document, title, f"#{before_rank}", f"#{rank}")
    if before["contentHash"] != result["contentHash"]:
        yield Difference("text", document, title, before["contentHash"][:12], result["contentHash"][:12])
    if abs(before["score"] - result["score"]) > _TOLERANCE:
        yield Difference("score", document, title, f"{before['score']:.6f}", f"{result['score']:.6f}")
