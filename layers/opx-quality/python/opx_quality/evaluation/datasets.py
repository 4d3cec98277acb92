"""Labelled questions in BEIR form: `queries.jsonl`, `qrels/test.tsv` and a corpus, which is one of

- `corpus.jsonl` (_id, title, text), as BEIR has it;
- a folder `documents`, ingested as `opx ingest` does; a page's id is its path in it;
- `dataset.json` with the path of such a folder: `{"documents": "../documents"}`.

Beyond BEIR, `metadata` of a question may have `kind`, `split`, `answerable: false` for one that no page answers, and
`spans`, the lines of pages that help (see `spans`); `unanswerable.txt` may have more without an answer, one a line.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.errors import InvalidInputError

# -- spans


ENOUGH = 2
"""The grade of a span with which a reader can act; 1 helps and isn't enough."""

HASH_DIGITS = 12

TextOf = Callable[[str], str | None]
"""The text of a page, None if there is no such page."""


@dataclass(frozen=True, slots=True)
class Span:
    page: str
    grade: int
    text: str


def read_spans(question: str, records: object, text_of: TextOf) -> tuple[Span, ...]:
    """The spans of a question, from `{"page", "grade", "text"}` or `{"page", "grade", "start", "end", "sha256"}` each.

    Raises `InvalidInputError` that names question and span for a malformed one, and for one that its page doesn't have.
    """
    if not isinstance(records, Sequence) or isinstance(records, str):
        raise InvalidInputError(f"question {question}: spans are a list of objects")
    return tuple(_span(f"question {question}, span {number}", one, text_of) for number, one in enumerate(records, 1))


def _span(name: str, record: Any, text_of: TextOf) -> Span:
    try:
        page, grade = str(record["page"]), int(record["grade"])
        given = record.get("text")
        start, end, digest = (0, 0, "") if given else (int(record["start"]), int(record["end"]), str(record["sha256"]))
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise InvalidInputError(f"{name}: expected page, grade, and text or start, end and sha256 ({exc!r})") from exc
    text = text_of(page)
    if text is None:
        raise InvalidInputError(f"{name}: the corpus has no page {page}")
    if grade not in (1, ENOUGH):
        raise InvalidInputError(f"{name}: the grade is 1 or {ENOUGH}, not {grade}")
    if given:
        if not _visible(str(given)) or str(given) not in text:
            raise InvalidInputError(f"{name}: {page} doesn't have the text {given!r}")
        return Span(page, grade, str(given))
    found = text[start:end] if 0 <= start < end else ""
    if not _visible(found) or span_hash(found) != digest:
        raise InvalidInputError(f"{name}: {page} has another text from {start} to {end}: its hash is not {digest}")
    return Span(page, grade, found)


def span_hash(text: str) -> str:
    """The beginning of the SHA-256 of a span's text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]


def labels_of(spans: Sequence[Span]) -> dict[str, int]:
    """The pages of the spans, each with its best grade."""
    labels: dict[str, int] = {}
    for span in spans:
        labels[span.page] = max(labels.get(span.page, 0), span.grade)
    return labels


def spans_json(spans: Sequence[Span]) -> list[Mapping[str, Any]]:
    return [{"page": span.page, "grade": span.grade, "text": span.text} for span in spans]


def _visible(text: str) -> bool:
    return bool(text.strip())


# -- datasets


ALL = "all"
"""Questions of every kind, or of every split, in tables of figures."""

OTHER_KIND = "other"
UNANSWERABLE = "unanswerable"
QUERIES = "queries.jsonl"
LABELS = "qrels/test.tsv"


@dataclass(frozen=True, slots=True)
class CorpusPage:
    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """`relevant` maps page ids to their grade, above 0; it is empty for a question that no page answers."""

    id: str
    text: str
    kind: str
    relevant: dict[str, int]
    split: str = ""
    spans: tuple[Span, ...] = ()

    @property
    def answerable(self) -> bool:
        return bool(self.relevant)


@dataclass(frozen=True, slots=True)
class Dataset:
    """`questions` have an answer, `unanswerable` have none. `documents` is the folder of the corpus, if it is one."""

    folder: Path
    questions: tuple[LabelledQuestion, ...]
    unanswerable: tuple[LabelledQuestion, ...] = ()
    documents: Path | None = field(default=None, kw_only=True)

    @property
    def all_questions(self) -> tuple[LabelledQuestion, ...]:
        """All questions, those without an answer last."""
        return (*self.questions, *self.unanswerable)

    def pages(self) -> Iterator[CorpusPage]:
        """The pages of `corpus.jsonl`, in order."""
        for record in _records(self.folder / "corpus.jsonl"):
            yield CorpusPage(str(record["_id"]), str(record.get("title") or ""), str(record["text"]))

    def corpus_fingerprint(self) -> str:
        """Hash that changes with the corpus."""
        if self.documents is None:
            return stable_hash((self.folder / "corpus.jsonl").read_bytes().hex())
        files = sorted(path for path in self.documents.rglob("*") if path.is_file())
        return stable_hash(*((str(path.relative_to(self.documents)), path.read_bytes().hex()) for path in files))

    def of_split(self, split: str) -> Dataset:
        """The questions of one split alone. Raises `InvalidInputError` if there are none."""
        chosen = tuple(question for question in self.questions if question.split == split)
        others = tuple(question for question in self.unanswerable if question.split == split)
        if not chosen and not others:
            known = ", ".join(sorted({question.split for question in self.all_questions} - {""})) or "none"
            raise InvalidInputError(f"{self.folder} has no questions of split {split!r}; it has {known}")
        return Dataset(self.folder, chosen, others, documents=self.documents)


def load_dataset(folder: Path, questions: Path | None = None) -> Dataset:
    """Read a dataset. Questions without a label are left out, as BEIR does, unless they are marked as unanswerable.

    `questions` is a file like `queries.jsonl`, used instead of the folder's own; its spans label the pages, and its
    questions may all be unanswerable.

    Raises `InvalidInputError` that names the file and line that is missing or malformed, or the span that the corpus
    lacks.
    """
    documents = _documents(folder)
    texts = _Texts(Dataset(folder, (), documents=documents))
    if questions is not None:
        return Dataset(folder, *_labelled_by_spans(questions, texts), documents=documents)
    for name in (QUERIES, LABELS):
        if not (folder / name).is_file():
            raise InvalidInputError(f"{folder} is not a dataset in BEIR form: it has no {name}")
    labels = _labels(folder / LABELS)
    answered, unanswered = [], []
    for record in _records(folder / QUERIES):
        question, answerable = _question(record, labels.get(str(record["_id"]), {}), texts)
        if not answerable and question.relevant:
            raise InvalidInputError(f"{folder}: question {question.id} is marked as unanswerable, but {LABELS} has one")
        if question.relevant:
            answered.append(question)
        elif not answerable:
            unanswered.append(question)
    _check_ids(folder / QUERIES, (*answered, *unanswered))
    if not answered:
        raise InvalidInputError(f"{folder}: no question of queries.jsonl has a label in {LABELS}")
    return Dataset(folder, tuple(answered), (*unanswered, *_listed(folder)), documents=documents)


def _labelled_by_spans(path: Path, texts: TextOf) -> tuple[tuple[LabelledQuestion, ...], tuple[LabelledQuestion, ...]]:
    """The questions of a file: those labelled with the pages of their spans, and the unanswerable ones."""
    answered, unanswered = [], []
    for question, answerable in (_question(record, {}, texts) for record in _records(path)):
        if answerable != bool(question.spans):
            wrong = "has no spans" if answerable else "is marked as unanswerable, but has spans"
            raise InvalidInputError(f"{path}: question {question.id} {wrong}")
        if answerable:
            answered.append(replace(question, relevant=labels_of(question.spans)))
        else:
            unanswered.append(question)
    _check_ids(path, (*answered, *unanswered))
    if not answered and not unanswered:
        raise InvalidInputError(f"{path}: there are no questions")
    return tuple(answered), tuple(unanswered)


class _Texts:
    """The text of a page by its id. The corpus is read when the first is looked up."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __call__(self, page: str) -> str | None:
        if self._dataset.documents is None:
            return self._pages.get(page)
        path = self._dataset.documents / page
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None

    @cached_property
    def _pages(self) -> dict[str, str]:
        return {page.id: page.text for page in self._dataset.pages()}


def _check_ids(path: Path, questions: Iterable[LabelledQuestion]) -> None:
    """Raises `InvalidInputError` for a duplicate id: labels and replies of the two questions would be mixed up."""
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise InvalidInputError(f"{path.parent}: two questions of {path.name} have the id {question.id}")
        seen.add(question.id)


def _question(record: dict[str, Any], relevant: dict[str, int], texts: TextOf) -> tuple[LabelledQuestion, bool]:
    """A question, and true unless it is marked as unanswerable."""
    metadata = _metadata(record)
    answerable = metadata.get("answerable", True) is not False
    kind = str(metadata.get("kind", OTHER_KIND if answerable else UNANSWERABLE))
    name, split = str(record["_id"]), str(metadata.get("split", ""))
    spans = read_spans(name, metadata.get("spans", ()), texts)
    return LabelledQuestion(name, str(record["text"]), kind, relevant, split, spans), answerable


def _metadata(record: dict[str, Any]) -> dict[str, Any]:
    given = record.get("metadata")
    return given if isinstance(given, dict) else {}


def _listed(folder: Path) -> Iterator[LabelledQuestion]:
    path = folder / "unanswerable.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield LabelledQuestion(f"unanswerable-line-{number}", line.strip(), UNANSWERABLE, {})


def _documents(folder: Path) -> Path | None:
    """The folder of the corpus; None if it is `corpus.jsonl`."""
    if (folder / "corpus.jsonl").is_file():
        return None
    pointer = folder / "dataset.json"
    found = folder / "documents"
    if pointer.is_file():
        try:
            found = (folder / json.loads(pointer.read_text(encoding="utf-8"))["documents"]).resolve()
        except (ValueError, KeyError, TypeError) as exc:
            raise InvalidInputError(f'{pointer}: expected {{"documents": "path"}} ({exc})') from exc
    if not found.is_dir():
        raise InvalidInputError(
            f"{folder} is not a dataset in BEIR form: it has no corpus.jsonl, and there is no folder {found}"
        )
    return found


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as exc:  # neither UTF-8 nor JSON
                raise InvalidInputError(f"{path}:{number}: not a JSON object ({exc})") from exc
            if not isinstance(record, dict) or not {"_id", "text"} <= record.keys():
                raise InvalidInputError(f"{path}:{number}: a record is an object with _id and text")
            yield record


def _labels(path: Path) -> dict[str, dict[str, int]]:
    labels: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for number, row in enumerate(csv.DictReader(file, delimiter="\t"), start=2):
            try:
                grade = int(row["score"])
                if grade > 0:
                    labels.setdefault(row["query-id"], {})[row["corpus-id"]] = grade
            except (KeyError, TypeError, ValueError) as exc:
                raise InvalidInputError(f"{path}:{number}: expected query-id, corpus-id and a whole score") from exc
    return labels
