"""Compares two versions of a document by metadata and line by line, and restores earlier versions."""

from __future__ import annotations

import difflib
import io
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, product
from pathlib import PurePosixPath
from typing import Any, TypeVar

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.ids import document_id
from opx.domain.titles import chosen, of_name
from opx.domain.versions import Change, Renumbering, Restored, SafeguardChange, StepChange, VersionDiff, VersionName
from opx.errors import DocumentNotFoundError, InvalidInputError, ObjectNotFoundError
from opx.formats.metadata import FACTS, given_facts, values_text
from opx.ingestion.corpus.chunk_files import joined_text, read_chunks
from opx.ingestion.corpus_writer import CorpusWriter
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ingestion.reading import title_path
from opx.ports import ObjectStore
from opx.ports.objects import PastObject, PastObjects

T = TypeVar("T")


CONTEXT_LINES = 3
MAX_CHARACTERS = 400_000
"""Limit of a diff, which is cut at a line."""

MAX_LISTED = 500
"""Limit of listed steps, and of listed safeguards."""

MAX_PAIRS = 1_000_000
"""Limit of line pairs that are compared between two anchors. A larger part counts as replaced as a whole: difflib takes
cubic time at worst."""

_Block = tuple[int, int, int]
"""A run of equal lines: its start in both texts, and its length."""

_FIELDS = (
    "title",
    "category",
    "tags",
    "author",
    "severity",
    "services",
    "language",
    "version",
    "last_updated",
    "source_uri",
)
"""Compared fields, in the order in which they are shown, before those of the author's metadata."""


@dataclass(frozen=True, slots=True)
class OutlineChanges:
    """Differences of the outlines of two versions. `notes` state what was not compared."""

    steps: tuple[StepChange, ...] = ()
    renumbered: tuple[Renumbering, ...] = ()
    safeguards: tuple[SafeguardChange, ...] = ()
    notes: tuple[str, ...] = ()


NO_CHANGES = OutlineChanges()


def version_name(document: KnowledgeDocument) -> VersionName:
    return VersionName(document.version, document.document_id, document.current_since)


def difference(
    before: KnowledgeDocument, after: KnowledgeDocument, texts: tuple[str, str], outlines: OutlineChanges = NO_CHANGES
) -> VersionDiff:
    """The differences of `after` from `before`, with those of their outlines."""
    lines = list(unified(*texts, *(f"{one.key.source} version {one.version}" for one in (before, after))))
    body = lines[2:]
    shown = _fitting(lines)
    listed: tuple[tuple[object, ...], ...] = (outlines.steps, outlines.renumbered, outlines.safeguards)
    return VersionDiff(
        source=after.key.source,
        before=version_name(before),
        after=version_name(after),
        changes=tuple(_changes(before, after)),
        steps=outlines.steps[:MAX_LISTED],
        renumbered=outlines.renumbered[:MAX_LISTED],
        safeguards=outlines.safeguards[:MAX_LISTED],
        notes=outlines.notes,
        diff="".join(shown),
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
        cut=len(shown) < len(lines) or any(len(each) > MAX_LISTED for each in listed),
    )


def _changes(before: KnowledgeDocument, after: KnowledgeDocument) -> Iterator[Change]:
    for name in dict.fromkeys((*_FIELDS, *FACTS, "owner")):
        was, is_ = (_text(getattr(one.metadata if name == "version" else one, name)) for one in (before, after))
        if was != is_:
            yield Change(name, was, is_)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {values_text(one)}" for name, one in value.items())
    return values_text(value)


def _fitting(lines: Sequence[str]) -> list[str]:
    room = MAX_CHARACTERS
    shown = []
    for line in lines:
        room -= len(line)
        if room < 0:
            break
        shown.append(line)
    return shown


def unified(before: str, after: str, before_name: str, after_name: str) -> Iterator[str]:
    """The lines of a unified diff, with line ends; none if the texts are equal. Like difflib's, but in bounded time."""
    old, new = _lines(before), _lines(after)
    matcher = _Matched(old, new)
    began = False
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        if not began:
            yield f"--- {before_name}\n"
            yield f"+++ {after_name}\n"
            began = True
        (_, low, _, new_low, _), (_, _, high, _, new_high) = group[0], group[-1]
        yield f"@@ -{_range(low, high)} +{_range(new_low, new_high)} @@\n"
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                yield from (" " + _ended(line) for line in old[start:end])
                continue
            yield from ("-" + _ended(line) for line in old[start:end])
            yield from ("+" + _ended(line) for line in new[new_start:new_end])


def _lines(text: str) -> list[str]:
    """Lines split at line feeds only: extracted text may contain other line separators."""
    return list(io.StringIO(text, newline="\n"))


def _range(start: int, end: int) -> str:
    """A range in GNU diff's notation: first line and count; for an empty range, the line before."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


class _Matched(difflib.SequenceMatcher[str]):
    """Compares the parts between anchors, lines that occur once in both texts and in the same order (patience diff, by Bram
    Cohen), so that the time is bounded."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, "", "", autojunk=False)
        self.a, self.b = old, new
        self.matching_blocks = [difflib.Match(*block) for block in _joined(_blocks(old, new))]
        self.matching_blocks.append(difflib.Match(len(old), len(new), 0))


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[_Block]:
    anchors = [(-1, -1), *_anchors(old, new), (len(old), len(new))]
    for (low, new_low), (high, new_high) in pairwise(anchors):
        yield from _between(old[low + 1 : high], new[new_low + 1 : new_high], low + 1, new_low + 1)
        if high < len(old):
            yield high, new_high, 1


def _between(old: Sequence[str], new: Sequence[str], at: int, new_at: int) -> Iterator[_Block]:
    """Equal lines of two parts: common prefix and suffix, and difflib's matches if the rest is small enough."""
    first = sum(1 for _ in _same(zip(old, new, strict=False)))
    most = min(len(old), len(new)) - first
    last = sum(1 for _ in islice(_same(zip(reversed(old), reversed(new), strict=False)), most))
    if first:
        yield at, new_at, first
    inner, new_inner = old[first : len(old) - last], new[first : len(new) - last]
    if inner and new_inner and len(inner) * len(new_inner) <= MAX_PAIRS:
        found = difflib.SequenceMatcher(None, inner, new_inner, autojunk=True).get_matching_blocks()
        yield from ((at + first + one.a, new_at + first + one.b, one.size) for one in found if one.size)
    if last:
        yield at + len(old) - last, new_at + len(new) - last, last


def _same(pairs: Iterator[tuple[str, str]]) -> Iterator[None]:
    for one, other in pairs:
        if one != other:
            return
        yield None


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Positions of lines that occur once in both texts: the longest subset in the same order in both."""
    once, new_once = _unique_lines(old), _unique_lines(new)
    pairs = [(at, new_once[line]) for line, at in once.items() if line in new_once]
    return longest_increasing(pairs)


def _unique_lines(lines: Sequence[str]) -> dict[str, int]:
    counts = Counter(lines)
    return {line: at for at, line in enumerate(lines) if counts[line] == 1}


def longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence with increasing second positions (patience sorting)."""
    tops: list[int] = []
    last: list[int] = []
    behind: list[int] = []
    for number, (_, second) in enumerate(pairs):
        pile = bisect_left(tops, second)
        behind.append(last[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(second)
            last.append(number)
        else:
            tops[pile], last[pile] = second, number
    chosen = []
    number = last[-1] if last else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = behind[number]
    return chosen[::-1]


def _joined(blocks: Iterator[_Block]) -> Iterator[_Block]:
    """Adjacent blocks merged, as difflib returns them."""
    whole: _Block | None = None
    for at, new_at, size in blocks:
        if whole and (whole[0] + whole[2], whole[1] + whole[2]) == (at, new_at):
            whole = whole[0], whole[1], whole[2] + size
            continue
        if whole:
            yield whole
        whole = at, new_at, size
    if whole:
        yield whole


# -- restoring


_READ_AS_TEXT = (".md", ".markdown", ".txt", ".text", ".log")
AS_MARKDOWN = "the original file is gone: {suffix} now has its extracted text as Markdown"


class Restorer:
    """Restores versions of documents in the scope of `writer`. No `past`: the store keeps no earlier objects."""

    def __init__(self, *, store: ObjectStore, writer: CorpusWriter, past: PastObjects | None) -> None:
        self._store = store
        self._writer = writer
        self._past = past

    def restore(self, document: KnowledgeDocument) -> Restored:
        """Restore a version; idempotent.

        Raises `InvalidInputError` for the current version, and `DocumentNotFoundError` if nothing is left of it.
        """
        if document.state is DocumentState.CURRENT:
            raise InvalidInputError(f"version {document.version} is the current one: there is nothing to restore")
        key = document.key.scope.prefix + document.key.source
        if self._bring_back(key, document.current_since):
            return Restored(key, version_name(document), original=True)
        return Restored(key, version_name(document), original=False, notes=self._put_text(key, document))

    def _bring_back(self, key: str, at: str) -> bool:
        """Restore the object and its sidecar of the time when the version became current."""
        if self._past is None or not at:
            return False
        found = self._at(self._past, key, at)
        if found is None or found.removed:
            return False
        sidecar = self._at(self._past, key + SIDECAR_SUFFIX, at)
        try:
            if sidecar is not None and not sidecar.removed:
                self._past.bring_back(key + SIDECAR_SUFFIX, sidecar.name)
            elif self._store.head(key + SIDECAR_SUFFIX):
                self._store.delete(key + SIDECAR_SUFFIX)
            self._past.bring_back(key, found.name)
        except ObjectNotFoundError:  # its version has just been deleted
            return False
        return True

    def _at(self, past: PastObjects, key: str, at: str) -> PastObject | None:
        return next((one for one in past.of(key) if one.stored_at <= at), None)

    def _put_text(self, key: str, document: KnowledgeDocument) -> tuple[str, ...]:
        try:
            text = "".join(joined_text(read_chunks(self._store, document.key, document.document_id)))
        except ObjectNotFoundError:
            message = f"nothing is left of version {document.version} of {document.key.source}: it can't be restored"
            raise DocumentNotFoundError(message) from None
        metadata, notes = _metadata(document)
        self._writer.put_described(key, text.encode("utf-8", "replace"), metadata)
        return notes


def _metadata(document: KnowledgeDocument) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Metadata of a version from the catalog, with notes on what can't be restored unchanged."""
    notes = []
    path = PurePosixPath(document.key.source)
    name = ""
    if path.suffix.lower() not in _READ_AS_TEXT:
        name = f"{path.stem}.md"
        notes.append(AS_MARKDOWN.format(suffix=path.name))
    title = chosen(document.title, title_path(document.source, document.category))
    by_name = document_id(of_name(document.source), document.category, document.content_hash) == document.document_id
    metadata = {
        "category": document.category,
        "title": "" if by_name else title,  # as it is made anew from the text, and the id from the name
        "author": document.author,
        "version": document.metadata.version,
        "source_uri": document.source_uri if document.source_uri != document.location else "",
        "createdAt": document.created_at,
        "owner": document.owner,
        "name": name,
        **given_facts(document),
    }
    own = {field: value for field, value in document.attributes.items() if field != "name"}  # which is a file's here
    return {**own, **{field: value for field, value in metadata.items() if value}}, tuple(notes)


# -- similarity


MIN_LIKENESS = 0.6
"""Least similarity ratio (difflib) of two titles or sentences that count as the same."""
MAX_LIKENED = 2_500
"""Limit of compared pairs, 50 by 50; beyond it, only equal items match."""

_MARK = re.compile(r"\W*(?:(?:step\s+)?\d{1,3}(?:\.\d{1,3})*[.):]\s+)?", re.IGNORECASE)
"""The marker of a list item or heading, with the author's number, which depends on the steps before it."""


def unmarked(text: str) -> str:
    """The text without its leading marker and number."""
    return _MARK.sub("", text, count=1)


def likeness(one: str, other: str) -> float:
    """Similarity ratio of two strings, ignoring case; 0 below `MIN_LIKENESS`, which is found quickly."""
    matcher = difflib.SequenceMatcher(None, one.casefold(), other.casefold(), autojunk=False)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio)
    return matcher.ratio() if all(bound() >= MIN_LIKENESS for bound in bounds) else 0.0


def most_alike(
    old: Sequence[T], new: Sequence[T], likeness_of: Callable[[T, T], float], position: Callable[[T], int]
) -> Iterator[tuple[T, T]]:
    """Pairs of similar items, the best first, each item once; ties are broken by distance."""
    scored = [
        (-likeness_of(one, other), abs(position(one) - position(other)), at, new_at)
        for (at, one), (new_at, other) in product(enumerate(old), enumerate(new))
    ]
    taken: set[int] = set()
    taken_new: set[int] = set()
    for score, _, at, new_at in sorted(scored):
        if -score < MIN_LIKENESS:
            return
        if at not in taken and new_at not in taken_new:
            taken.add(at)
            taken_new.add(new_at)
            yield old[at], new[new_at]
