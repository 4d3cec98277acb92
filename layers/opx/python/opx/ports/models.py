"""Language models and rerankers: what they are asked, and what they may answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from opx.domain.queries import ReaderVerdict
from opx.domain.record import without_references
from opx.errors import InvalidInputError, ModelError


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked, in one call.

    `instructions` are ours. `data` is all that comes from questions, documents or the web: adapters pass it apart from the
    instructions, framed, so that nothing in it is taken for one, and without what looks like a secret. Several texts in it
    are best told apart as JSON. `answer` is the type of the object that must come back, a `ModelAnswer`.
    `seconds` is how long the call may take in all, tries included.
    """

    instructions: str
    data: str
    answer: type[Any]
    max_tokens: int = 1000
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The answer, which is of the type that the request names, and the tokens that were paid for."""

    content: Any
    input_tokens: int = 0
    output_tokens: int = 0


class ChatModel(Protocol):
    """A language model that answers with JSON."""

    @property
    def name(self) -> str:
        """Which model it is, for traces: `bedrock:amazon.nova-lite-v1:0`."""

    def ask(self, request: ChatRequest) -> ChatReply:
        """One call. Raises `ModelError` if the model fails, takes too long, or answers what doesn't fit."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document to be judged: its title, and its best passages under their headings."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class CandidateReading:
    """The verdict on a document. `line` is the number of the line that answers or helps, from 1 in
    `models.candidates.lines_of` the candidate's text; 0 for none. `score` is the relevance in [0, 1] that the verdict was
    made of, None of a model that gives verdicts."""

    verdict: ReaderVerdict
    line: int = 0
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A reading of each candidate, in the order of the candidates. Readings of one model have all a score or none."""

    readings: tuple[CandidateReading, ...]
    input_tokens: int = 0
    output_tokens: int = 0


class Reranker(Protocol):
    """Reads the best documents of a search, and judges each."""

    @property
    def name(self) -> str:
        """Its name in answers: `chat:openai:llama3.2`, `bedrock:cohere.rerank-v3-5:0`."""

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:
        """Readings of all candidates. `Ranking(())` for none of them. Raises `ModelError` if it fails, takes longer than
        `seconds`, gives anything but one reading of each, or gets more than `models.candidates.MAX_CANDIDATES`."""


# -- typed replies


Schema = Mapping[str, Any]
A = TypeVar("A", bound="ModelAnswer")

_BOUNDS = frozenset({"maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern"})
_REFERENCE = "#/{name}"
_QUOTED = re.compile(r"Invalid enum value .*?(?= - at |\Z)|Expected `str` matching regex .*?(?= - at |\Z)", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `.*?`(?= - at |\Z)", re.DOTALL)


class ModelAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of answers, and of the objects in them. Fields have no defaults: some services want all of them required."""


def read_answer(kind: type[A], content: object) -> A:
    """The record in what a model said. Whole numbers may be written as 2.0; numbers that aren't finite, and strings that
    can't be stored, fit nothing. Raises `InvalidInputError` that says where it doesn't fit, and quotes nothing of it."""
    try:
        written = json.dumps(content, ensure_ascii=False, allow_nan=False)
        written.encode("utf-8")
        return msgspec.convert(json.loads(written, parse_float=_number), kind)
    except msgspec.ValidationError as exc:
        problem = _UNKNOWN.sub("it has members that are not allowed", str(exc))
        problem = _QUOTED.sub("it is none of the values that are allowed", problem)
        raise InvalidInputError(problem) from None
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"it can't be written as JSON: {type(exc).__name__}") from None


def _number(text: str) -> float:
    found = float(text)
    return int(found) if found.is_integer() else found


def answer_schema(kind: type[ModelAnswer]) -> Schema:
    """The JSON Schema of an answer, without references."""
    (schema,), named = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    found: Schema = json.loads(msgspec.json.encode(_plain(without_references(schema, named))))
    return found


def _plain(schema: Any) -> Any:
    """Without names and docstrings of record types, and without patterns of what is listed anyway."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"pattern"} if "enum" in schema else set()
    if "properties" in schema:
        left_out |= {"title", "description"}
    return {name: _plain(inner) for name, inner in schema.items() if name not in left_out}


def without_bounds(schema: Schema) -> dict[str, Any]:
    """The same without the bounds of numbers, lists and strings, which services that generate by a schema refuse."""
    found: dict[str, Any] = {name: value for name, value in schema.items() if name not in _BOUNDS}
    if "properties" in found:
        found["properties"] = {name: without_bounds(inner) for name, inner in found["properties"].items()}
    if "items" in found:
        found["items"] = without_bounds(found["items"])
    return found


# -- reading


class Ocr(Protocol):
    """Text from a picture of text."""

    def read(self, image: bytes, *, media_type: str) -> str:
        """The text of one page (`image/png` or `image/jpeg`) in reading order, "" if there is none. Raises
        `StoreUnavailableError` if the service fails for now, and `UnparsableDocumentError` for what is no image."""


class ImageDescriber(Protocol):
    """What a picture shows, in words."""

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        """A description for somebody who can't see it: what a diagram connects, what a screen says. `hint` is the
        file's name or the text around it: data, not an instruction. Raises as `Ocr.read`."""


@dataclass(frozen=True, slots=True)
class ParsingLimits:
    """What reading one file of a binary format may take, in a process of its own.

    `seconds` are of CPU, and twice as many may pass in all. `memory_bytes` bounds its address space (where the system
    can), `unpacked_bytes` what an archive unpacks to and what is written. Of longer documents the first `pages` are
    read, and as many pictures or scanned pages as `images` are given to the tools. `attachments` are nested that deep.
    """

    seconds: float = 60.0
    memory_bytes: int = 512 * 1024 * 1024
    unpacked_bytes: int = 256 * 1024 * 1024
    pages: int = 2000
    images: int = 100
    attachments: int = 3


@dataclass(frozen=True, slots=True)
class ParsingTools:
    """What there is to read with. Without a tool, what would need it is kept and reported as unread."""

    ocr: Ocr | None = None
    describer: ImageDescriber | None = None
    limits: ParsingLimits = ParsingLimits()


# -- rerank candidates


MAX_CANDIDATES = 8
"""Documents: of 866 questions about 730 pages, 99.0 % have a relevant page among them (5: 98.0 %, 10: 99.3 %)."""
MAX_CHARACTERS = 2400
"""Of a candidate, its title included: about 600 tokens of English, a whole chunk (500 tokens) under its title."""
MAX_TITLE_CHARACTERS = 200
MAX_QUESTION_CHARACTERS = 2000
_BLANK = "."
"""Read for a text without characters, which services refuse."""

ANSWERING_SCORE, USELESS_SCORE = 0.5, 0.1
"""Relevance from which on a score is taken for `answers`, and below which for `no`."""


def check_number(candidates: Sequence[Candidate], name: str) -> None:
    """Raise `ModelError` for more candidates than a call may pay for."""
    if len(candidates) > MAX_CANDIDATES:
        raise ModelError(f"{name} reads at most {MAX_CANDIDATES} candidates a call, not {len(candidates)}")


def readable(text: str, limit: int = MAX_CHARACTERS) -> str:
    """What is read of a text: not blank, not too long, and valid Unicode."""
    cut = text[:limit].encode("utf-8", "replace").decode()
    return cut if cut.strip() else _BLANK


def lines_of(text: str) -> list[str]:
    """The lines of a candidate's text that have characters, as readings count them."""
    return [stripped for line in readable(text).splitlines() if (stripped := line.strip())]


def reading_of(score: float) -> CandidateReading:
    """The reading that a relevance stands for."""
    if score >= ANSWERING_SCORE:
        return CandidateReading(ReaderVerdict.ANSWERS, score=score)
    return CandidateReading(ReaderVerdict.NO if score < USELESS_SCORE else ReaderVerdict.HELPS, score=score)


def ranking(
    readings: Mapping[int, CandidateReading], count: int, name: str, *, tokens: tuple[int, int] = (0, 0)
) -> Ranking:
    """The ranking of `count` candidates from their readings by position. Raises `ModelError` unless there is one of each and
    of nothing else, and as `check_readings`. `tokens`: read and written."""
    if readings.keys() != set(range(count)):
        raise ModelError(f"{name} judged {len(readings)} candidates, not each of the {count}")
    found = Ranking(tuple(readings[at] for at in range(count)), input_tokens=tokens[0], output_tokens=tokens[1])
    check_readings(found.readings, count, name)
    return found


def check_readings(readings: Sequence[CandidateReading], count: int, name: str) -> None:
    """Raise `ModelError` for another number of readings, for scores that are no number in [0, 1], and for scores of some."""
    if len(readings) != count:
        raise ModelError(f"{name} gave {len(readings)} readings of {count} candidates")
    scores = [reading.score for reading in readings if reading.score is not None]
    if scores and len(scores) < count:
        raise ModelError(f"{name} gave scores to {len(scores)} of {count} candidates")
    if not all(isinstance(score, int | float) and math.isfinite(score) and 0 <= score <= 1 for score in scores):
        raise ModelError(f"{name} gave a score outside of [0, 1]")
