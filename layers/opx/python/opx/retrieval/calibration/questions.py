"""Generates questions from a corpus, each with the document that answers it, and collects their evidence.

Sources are titles, headings that name something, alerts that a page is for and the first sentence of its symptoms;
unchanged, without one word, or with values as in alerts. The same seed gives the same questions.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from random import Random

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.knowledge import WARNINGS_CATEGORY
from opx.domain.procedures import SectionKind
from opx.domain.queries import Fusion, SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.errors import EmbeddingError
from opx.ingestion.corpus.chunk_files import joined_text
from opx.ports import Embedder, Leg, SearchEngine, SearchFilter, SearchRequest, SearchResponse, Vector
from opx.retrieval.evidence import Parts, evidence_of
from opx.retrieval.hybrid import DEPTH, JUDGED, Candidates, fused_hits, terms_of
from opx.retrieval.identifiers import ALERT, kind_of
from opx.retrieval.judging import PASSAGES, DocumentHits, pages_of
from opx.retrieval.question import focused, identifiers, value_words
from opx.text.fields import words
from opx.text.languages import question_languages
from opx.text.procedures.phrases import is_role, role_of, sentences

MOST_QUESTIONS = 400
OF_A_DOCUMENT = 4
"""Questions generated from one document at most."""

FEWEST_DOCUMENTS = 30
"""Fewer documents, or fewer categories than `FEWEST_CATEGORIES`, are too little to calibrate on."""
FEWEST_CATEGORIES = 2

_FEWEST_WORDS = 3
"""Words of a heading that names something; shorter ones belong to a template."""
_LONGEST = 200
_PIECES = 50
"""Chunks of a document that are read."""

_HEADING = re.compile(r"#{1,6} +(.*?)[ #]*")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_VALUES = (
    "on web-7f9c4d-x2x8k",
    "at 10.20.30.41:9100",
    "in prod/eu-west-1b",
    "since 04:17, 97.3%",
    "for node-12 (pid 4711)",
)

FOREIGN = (
    "how long does fresh pasta keep in the fridge",
    "what is the tallest mountain in South America",
    "my cat scratches the sofa all night",
    "which vitamins are in sweet potatoes",
    "how to fold a fitted bed sheet",
    "who wrote the opera Carmen",
    "train connections from Vienna to Venice on Sunday",
    "what do I wear to a garden wedding",
    "how many players are on a volleyball team",
    "remove candle wax from a wooden table",
    "when do cherry trees blossom in Japan",
    "difference between baroque and rococo",
    "how to tune a violin without a piano",
    "is it safe to run with a cold",
    "which wine goes with grilled salmon",
    "why do leaves turn red in autumn",
    "stretching exercises for lower back pain",
    "when does the public library open on Saturdays",
    "how do I renew my passport",
    "birthday present for a ten year old who likes dinosaurs",
    "how many calories are in a croissant",
    "what does the word petrichor mean",
    "rent a canoe on the lake for a weekend",
    "how to get chewing gum out of hair",
    "who invented the sewing machine",
    "best time of year to prune roses",
    "how to play the first chords on a ukulele",
    "is there a vegetarian menu in the canteen today",
    "how far is Jupiter from the sun",
    "knitting pattern for a baby blanket",
)
"""Questions about other subjects, to which nothing in an operations corpus is near."""

ReadChunks = Callable[[KnowledgeDocument], Iterable[DocumentChunk]]


@dataclass(frozen=True, slots=True)
class MadeQuestion:
    """A question and the document that answers it."""

    text: str
    document: KnowledgeDocument


def usable(documents: Iterable[KnowledgeDocument]) -> list[KnowledgeDocument]:
    """Documents that questions can be generated from: with chunks, no warnings, each content once."""
    found: dict[str, KnowledgeDocument] = {}
    for one in documents:
        if one.chunk_count and one.category != WARNINGS_CATEGORY:
            found.setdefault(one.document_id, one)
    return list(found.values())


def too_little(documents: Sequence[KnowledgeDocument]) -> str:
    """Reason why these documents are too few to calibrate on; "" if they aren't."""
    categories = {one.category for one in documents}
    if len(documents) < FEWEST_DOCUMENTS:
        return f"there are {len(documents)} documents that can be used; calibration needs {FEWEST_DOCUMENTS}"
    if len(categories) < FEWEST_CATEGORIES:
        return f"all documents are of the category {categories.pop()}; calibration needs {FEWEST_CATEGORIES} categories"
    return ""


def make_questions(
    documents: Sequence[KnowledgeDocument], read: ReadChunks, *, most: int = MOST_QUESTIONS, seed: int = 1
) -> list[MadeQuestion]:
    """Generates at most `most` questions from documents drawn at random. Text shared by several of the drawn documents, or
    by the titles of several documents, is ambiguous and left out."""
    random = Random(seed)  # noqa: S311 - draws a sample
    ordered = sorted(documents, key=lambda one: one.document_id)
    drawn = random.sample(ordered, min(len(ordered), most))
    titles = Counter(_folded(one.title) for one in ordered)
    texts: list[MadeQuestion] = []
    for document in drawn:
        if titles[_folded(document.title)] > 1:
            continue
        found = dict.fromkeys(_texts_of(document, read(document)))
        texts += [MadeQuestion(text, document) for text in list(found)[:OF_A_DOCUMENT]]
        if len(texts) >= 2 * most:
            break
    named = Counter(_folded(one.text) for one in texts) + titles
    alone = [one for one in texts if named[_folded(one.text)] <= 1 + (_folded(one.text) in titles)]
    chosen = random.sample(alone, min(len(alone), most))
    return [replace(one, text=_varied(one.text, random)) for one in chosen]


def _texts_of(document: KnowledgeDocument, chunks: Iterable[DocumentChunk]) -> Iterator[str]:
    """The title, an alert, the first sentence of symptoms, and last headings, of which templates have many."""
    yield document.title
    sections = list(_sections(islice(joined_text(chunks), _PIECES)))
    described = [(heading, text) for at, (heading, text) in enumerate(sections) if not at or _names_symptoms(heading)]
    alerts = (name for _, text in described for name in identifiers(text) if kind_of(name) == ALERT)
    yield from islice(alerts, 1)
    for heading, text in described:
        if _names_symptoms(heading):
            yield from islice(filter(_is_long_enough, (one.strip("-*# ") for one in sentences(text))), 1)
    yield from (heading for heading, _ in sections if _is_long_enough(heading) and not is_role(heading))


def _sections(pieces: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Headings with the text below each up to the next; "" for the text before the first. Headings in code are ignored."""
    heading, lines, is_code = "", list[str](), False
    for line in "".join(pieces).splitlines():
        is_code ^= bool(_FENCE.match(line))
        found = None if is_code else _HEADING.fullmatch(line)
        if found:
            yield heading, "\n".join(lines)
            heading, lines = found[1], []
        else:
            lines.append(line)
    yield heading, "\n".join(lines)


def _names_symptoms(heading: str) -> bool:
    return bool(heading) and role_of(heading) is SectionKind.SYMPTOMS


def _is_long_enough(text: str) -> bool:
    return len(text.split()) >= _FEWEST_WORDS and len(text) <= _LONGEST


def _varied(text: str, random: Random) -> str:
    """Returns the text unchanged, without one of its words, or with a value as in alerts."""
    form, words = random.randrange(3), text.split()
    if form == 1 and len(words) > _FEWEST_WORDS:
        words.pop(random.randrange(len(words)))
        return " ".join(words)
    return f"{text} {random.choice(_VALUES)}" if form == 2 else text


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


# -- evidence


MODE = SearchMode.BALANCED
LENGTH_ERROR = 0.05
"""Largest difference of a vector's length from 1."""


class QuestionKind(StrEnum):
    """A question with its document, one without it, or one about something else."""

    ANSWERED = "answered"
    REMOVED = "removed"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class LabelledEvidence:
    """Evidence of each document that was found for a question, and its label: `right` if it answers. `group` is the document
    that the question was generated from, so that its evidence stays together."""

    group: str
    kind: QuestionKind
    rows: tuple[Parts, ...]
    right: tuple[bool, ...]


def without(response: SearchResponse, gone: Callable[[IndexedChunk], bool], depth: int) -> SearchResponse:
    """The response as it would be without some entries: hits, at most `depth` of a leg, and frequencies are those of the
    others."""

    def kept(leg: Leg) -> Leg:
        return replace(leg, hits=tuple(hit for hit in leg.hits if not gone(response.chunks[hit[0]]))[:depth])

    removed = [chunk for chunk in response.chunks.values() if gone(chunk)]
    held = [terms_of(chunk) for chunk in removed]
    frequencies = {
        word: max(count - sum(word in terms for terms in held), 0) for word, count in response.term_frequencies.items()
    }
    lexical, vector = kept(response.lexical), kept(response.vector)
    named = {entry for leg in (lexical, vector) for entry, _ in leg.hits}
    return replace(
        response,
        lexical=lexical,
        vector=vector,
        chunks={entry: response.chunks[entry] for entry in response.chunks if entry in named},
        term_frequencies=frequencies,
        entry_count=response.entry_count - len(removed),
    )


class EvidenceCollector:
    """Searches one index with one model. Raises `EmbeddingError` for a meaningless vector, and `StoreUnavailableError`."""

    def __init__(self, index: SearchEngine, embedder: Embedder) -> None:
        self._index = index
        self._embedder = embedder

    def made(self, text: str, where: SearchFilter, answer: str) -> Iterator[LabelledEvidence]:
        """Evidence for a question with its document, and without it."""
        response = self._searched(text, where)
        yield self._evidence(text, response, answer, QuestionKind.ANSWERED)
        yield self._evidence(text, response, answer, QuestionKind.REMOVED)

    def foreign(self, text: str, where: SearchFilter) -> LabelledEvidence:
        """Evidence for a question that nothing answers."""
        return self._evidence(text, self._searched(text, where), text, QuestionKind.FOREIGN)

    def _searched(self, text: str, where: SearchFilter) -> SearchResponse:
        vector = self._embedder.embed_query(text)
        check_vector(vector, self._embedder.model_id)
        languages = question_languages(text)
        values = value_words(text, languages)
        return self._index.search(SearchRequest(where, text, vector, 3 * DEPTH[MODE], languages, values))

    @staticmethod
    def _evidence(text: str, response: SearchResponse, group: str, kind: QuestionKind) -> LabelledEvidence:
        gone = group if kind is QuestionKind.REMOVED else ""
        left = without(response, lambda chunk: chunk.chunk.document_id == gone, DEPTH[MODE])
        languages = question_languages(text)
        values = value_words(text, languages)
        found = fused_hits(
            Candidates.of(left), Fusion.MIN_MAX, PASSAGES, question_words=words(text, languages), values=values
        )
        pages = pages_of(found)[:JUDGED]
        right = tuple(group in _documents(page) for page in pages)
        return LabelledEvidence(group, kind, tuple(evidence_of(focused(text), found, pages)), right)


def _documents(page: DocumentHits) -> set[str]:
    """The document of a page, and its near-duplicates."""
    return {one.document_id for hit in page.hits for one in (hit, *hit.copies)}


def check_vector(vector: Vector, model: str) -> None:
    """Raises `EmbeddingError` for a vector whose length isn't 1, such as one of zeros or NaN."""
    length = math.sqrt(math.fsum(value * value for value in vector))
    if not abs(length - 1) <= LENGTH_ERROR:
        raise EmbeddingError(f"the embedding model {model} gave a vector of length {length:.3g}; it must be 1")
