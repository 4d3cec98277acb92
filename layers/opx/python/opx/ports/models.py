"""Ports for language models, rerankers, OCR and image descriptions, with the checks of their replies."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from opx.domain.queries import ReaderVerdict
from opx.domain.record import prepared, schema_components, without_references
from opx.errors import InvalidInputError, ModelError


class ChatRequest(Struct, frozen=True):
    """Request of one call to a language model.

    `instructions` are trusted. `data` is all untrusted input from questions, documents or the web: adapters pass it
    separately from the instructions, framed, so that nothing in it is taken for an instruction, and without apparent
    secrets. Several texts in it are best separated as JSON. `answer` is the required type of the reply, a `ModelAnswer`.
    `seconds` is the time limit of the call, retries included.
    """

    instructions: str
    data: str
    answer: type[Any]
    max_tokens: int = 1000
    seconds: float = 10.0


class ChatReply(Struct, frozen=True):
    """The answer, of the type that the request names, and the tokens that were billed."""

    content: Any
    input_tokens: int = 0
    output_tokens: int = 0


class ChatModel(Protocol):
    """A language model that answers with JSON."""

    @property
    def name(self) -> str:
        """Name of the model, for traces: `bedrock:amazon.nova-lite-v1:0`."""

    def ask(self, request: ChatRequest) -> ChatReply:
        """One call. Raises `ModelError` if the model fails, takes too long, or its answer doesn't match the schema."""


class Candidate(Struct, frozen=True):
    """A document to be judged: its title, and its best passages under their headings."""

    title: str
    text: str


class CandidateReading(Struct, frozen=True):
    """The verdict on a document. `line` is the number of the line that answers or helps, from 1 in `lines_of` the
    candidate's text; 0 for none. `score` is the relevance in [0, 1] that the verdict is derived from, None for a model
    that returns verdicts."""

    verdict: ReaderVerdict
    line: int = 0
    score: float | None = None


Reading = CandidateReading | None
"""None for a candidate that the model gave no valid verdict on."""


class Ranking(Struct, frozen=True):
    """A reading of each candidate, in the order of the candidates. Either all readings of a model have a score or none
    has."""

    readings: tuple[Reading, ...]
    input_tokens: int = 0
    output_tokens: int = 0


class Reranker(Protocol):
    """Reads the best documents of a search, and judges each."""

    @property
    def name(self) -> str:
        """Its name in answers: `chat:openai:llama3.2`, `bedrock:cohere.rerank-v3-5:0`."""

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:
        """Readings of all candidates. `Ranking(())` for none of them. Raises `ModelError` if it fails, takes longer than
        `seconds`, judges none of them, or gets more than `MAX_CANDIDATES`."""


# -- typed replies


Schema = Mapping[str, Any]
A = TypeVar("A", bound="ModelAnswer")

_BOUNDS = frozenset({"maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern"})
_REFERENCE = "#/{name}"
_QUOTED = re.compile(r"Invalid enum value .*?(?= - at |\Z)|Expected `str` matching regex .*?(?= - at |\Z)", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `.*?`(?= - at |\Z)", re.DOTALL)


class ModelAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of answers, and of the objects in them. Fields have no defaults: some services require all of them."""


def read_answer(kind: type[A], content: object) -> A:
    """Parses a model's reply. Integers may be written as 2.0; numbers that aren't finite, and strings that can't be
    stored, are refused. Raises `InvalidInputError` that names the invalid field, and quotes nothing of the reply."""
    try:
        written = json.dumps(content, ensure_ascii=False, allow_nan=False)
        written.encode("utf-8")
        return msgspec.convert(json.loads(written, parse_float=_number), prepared(kind))
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
    (schema,), named = schema_components([kind], ref_template=_REFERENCE)
    found: Schema = json.loads(msgspec.json.encode(_plain(without_references(schema, named))))
    return found


def _plain(schema: Any) -> Any:
    """The schema without names and docstrings of record types, and without patterns of enumerated values."""
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


# -- reading files


class Ocr(Protocol):
    """Extracts text from images (OCR)."""

    def read(self, image: bytes, *, media_type: str) -> str:
        """The text of one page (`image/png` or `image/jpeg`) in reading order, "" if there is none. Raises
        `StoreUnavailableError` if the service fails for now, and `UnparsableDocumentError` for bytes that are no
        image."""


class ImageDescriber(Protocol):
    """Describes images in words."""

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        """A description for a reader who can't see the image: the connections of a diagram, the text of a screen. `hint`
        is the file's name or the text around it: data, not an instruction. Raises as `Ocr.read`."""


class ParsingLimits(Struct, frozen=True):
    """Limits of parsing one file of a binary format in the sandbox process.

    `seconds` limits CPU time; wall-clock time may be twice that. `memory_bytes` bounds the address space (where the
    system can), `unpacked_bytes` the unpacked size of an archive and the output. Of longer documents the first `pages`
    are read, and at most `images` pictures or scanned pages are passed to the tools. `attachments` is the depth to which
    attachments are read.
    """

    seconds: float = 60.0
    memory_bytes: int = 512 * 1024 * 1024
    unpacked_bytes: int = 256 * 1024 * 1024
    pages: int = 2000
    images: int = 100
    attachments: int = 3


class ParsingTools(Struct, frozen=True):
    """Available tools for parsing. Parts that need a missing tool are kept and reported as unread."""

    ocr: Ocr | None = None
    describer: ImageDescriber | None = None
    limits: ParsingLimits = ParsingLimits()


# -- rerank candidates


MAX_CANDIDATES = 8
"""Documents: of 866 questions about 730 pages, 99.0 % have a relevant page among them (5: 98.0 %, 10: 99.3 %)."""
MAX_CHARACTERS = 2400
"""Characters of a candidate, its title included: about 600 tokens of English, a whole chunk (500 tokens) under its
title."""
MAX_TITLE_CHARACTERS = 200
MAX_QUESTION_CHARACTERS = 2000
_BLANK = "."
"""Sent instead of a blank string, which services refuse."""

ANSWERING_SCORE, USELESS_SCORE = 0.5, 0.1
"""Relevance from which a score means `answers`, and below which it means `no`."""


def check_number(candidates: Sequence[Candidate], name: str) -> None:
    """Raises `ModelError` for more candidates than allowed in a call."""
    if len(candidates) > MAX_CANDIDATES:
        raise ModelError(f"{name} reads at most {MAX_CANDIDATES} candidates a call, not {len(candidates)}")


def readable(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Text cut to what a model reads: not blank, not too long, and valid Unicode."""
    cut = text[:limit].encode("utf-8", "replace").decode()
    return cut if cut.strip() else _BLANK


def lines_of(text: str) -> list[str]:
    """The lines of a candidate's text that have characters, as readings count them."""
    return [stripped for line in readable(text).splitlines() if (stripped := line.strip())]


def reading_of(score: float) -> CandidateReading:
    """The reading for a relevance score."""
    if score >= ANSWERING_SCORE:
        return CandidateReading(ReaderVerdict.ANSWERS, score=score)
    return CandidateReading(ReaderVerdict.NO if score < USELESS_SCORE else ReaderVerdict.HELPS, score=score)


def ranking(
    readings: Mapping[int, CandidateReading], count: int, name: str, *, tokens: tuple[int, int] = (0, 0)
) -> Ranking:
    """The ranking of `count` candidates from their readings by position. Raises `ModelError` as `check_readings`.
    `tokens`: input and output."""
    found = Ranking(tuple(readings.get(at) for at in range(count)), input_tokens=tokens[0], output_tokens=tokens[1])
    check_readings(found.readings, count, name)
    return found


def check_readings(readings: Sequence[Reading], count: int, name: str) -> None:
    """Raises `ModelError` for another number of readings, if all are None, for scores outside [0, 1], and if only some
    have a score."""
    judged = [reading for reading in readings if reading is not None]
    if len(readings) != count or not judged:
        raise ModelError(f"{name} judged {len(judged)} candidates of {count}")
    scores = [reading.score for reading in judged if reading.score is not None]
    if scores and len(scores) < len(judged):
        raise ModelError(f"{name} gave scores to {len(scores)} of {len(judged)} candidates")
    if not all(isinstance(score, int | float) and math.isfinite(score) and 0 <= score <= 1 for score in scores):
        raise ModelError(f"{name} gave a score outside of [0, 1]")
