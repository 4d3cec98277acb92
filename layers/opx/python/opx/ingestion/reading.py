"""Reads objects of the corpus as documents: parses and cleans them, merges metadata, and spools the text to disk."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from opx.domain.documents import (
    DocumentKey,
    KnowledgeDocument,
    Remark,
    RemarkKind,
    Revision,
    bounded,
    expiry_day,
    expiry_of,
    fetched_expiry,
)
from opx.domain.ids import batched, document_id, iso_time, normalise, shortened
from opx.domain.knowledge import ALERT_RULES_CATEGORY, Category, KnowledgeModel, Tier, readable_retention
from opx.domain.provenance import Provenance
from opx.domain.record import replace
from opx.domain.titles import MAX_TITLE, completed, of_name, readable
from opx.errors import ObjectNotFoundError, UnparsableDocumentError
from opx.formats.markdown_lines import Line, scan
from opx.formats.metadata import MAX_TEXT, DocumentMetadata, check_given, parse_sidecar, texts_of, validated
from opx.formats.registry import parse
from opx.hygiene.cleaning import Cleaner, Span
from opx.ingestion.channels import CategoryChoice, ChannelRules, arrival_of
from opx.ingestion.events import DOCUMENTS_FOLDER, SIDECAR_SUFFIX
from opx.ingestion.files import OBJECT_METADATA
from opx.ingestion.reviews import review_of, reviewed
from opx.ports import Clock, ObjectInfo, ObjectStore
from opx.ports.models import ParsingTools
from opx.text.languages import READ_CHARACTERS, detect_language

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAY_BE_RULES = frozenset((".json", ".rules", ".yaml", ".yml"))
_SPOOL_BYTES = 1024 * 1024
_LINE_PIECE = 65_536
_LINES_TOGETHER = 64
_SENTENCE, _LONGEST = 120, 2000  # characters of a title made of text, and of the text that is read for it
_HASH_BLOCK = 1024 * 1024
_KEEP_LINES_BELOW = 1024 * 1024
"""Characters of text up to which its lines are kept in memory instead of scanned again."""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document before chunking. `text` is the normalised text in an open temporary file, without secrets; `scanned`
    holds its lines unless it is too long to keep them. `suspected` are spans that look like instructions to a language
    model. `provenance` lacks the moment of ingestion."""

    document: KnowledgeDocument
    category: Category
    text: IO[str]
    scanned: Sequence[Line] | None
    provenance: Provenance
    suspected: Sequence[Span] = ()

    def lines(self) -> Iterable[Line]:
        """The classified lines of the text."""
        return self.scanned if self.scanned is not None else scan(self._pieces())

    def _pieces(self) -> Iterator[str]:
        self.text.seek(0)
        while piece := self.text.readline(_LINE_PIECE):
            yield piece


@dataclass(eq=False)
class DocumentReader:
    """Reads the current state of objects, whatever the event reported."""

    store: ObjectStore
    knowledge: KnowledgeModel
    _: KW_ONLY
    max_bytes: int
    clock: Clock
    tools: ParsingTools = field(default_factory=ParsingTools)
    channels: ChannelRules = field(default_factory=ChannelRules)

    def sidecar(self, object_key: str) -> ObjectInfo | None:
        return self.store.head(object_key + SIDECAR_SUFFIX)

    @contextmanager
    def read(self, key: DocumentKey, info: ObjectInfo) -> Iterator[ParsedDocument]:
        """Reads a document; its text is open within the block. Raises `UnparsableDocumentError`, `UnknownCategoryError` or
        `ObjectNotFoundError`."""
        if info.size > self.max_bytes:
            raise UnparsableDocumentError(
                f"{key.source} has {info.size:,} bytes, the limit is {self.max_bytes:,}: "
                "split it, or raise OPX_MAX_DOCUMENT_BYTES"
            )
        uploaded = _uploaded_metadata(info, key.source)
        sidecar = self._sidecar_metadata(info.key)
        arrival = arrival_of(self.store, info)
        at_most = self.channels.limit(arrival.channel, key.source)
        choice = CategoryChoice(self.knowledge, key.source, arrival, at_most)
        with (
            self.store.open(info.key) as opened,
            tempfile.SpooledTemporaryFile(_SPOOL_BYTES, "w+", encoding="utf-8", newline="") as text,
        ):
            name = str(uploaded.get("name") or key.source)
            hashed = HashedStream(opened)
            category = choice.before_parsing(uploaded, sidecar, name)
            category, stream = self._recognised(key.source, info, category, choice, io.BufferedReader(hashed))
            parsed = parse(stream, name=name, category=category, tools=self.tools)
            given = {**sidecar, **{field: value for field, value in uploaded.items() if field != "name"}}
            cleaner = Cleaner()
            # given fields come first: there is a limit to their number
            metadata = _cleaned(validated({**given, **parsed.metadata, **given}, name=name), cleaner)
            outer = uploaded.get("category") or sidecar.get("category")
            category = choice.after_parsing(category, None if outer else metadata.category)
            spooled = _spool(cleaner.clean(parsed.lines), text)
            metadata = replace(metadata, language=metadata.language or _language(text))
            stated = metadata.title or parsed.title or spooled.heading or of_name(name)
            title = cleaner.value("title", normalise(" ".join(stated.split()))[:MAX_TITLE])
            document = self._document(key, info, category, metadata, (title, spooled.digest))
            review = review_of(info, attested=arrival.attested)
            document = reviewed(document, review) if review else document
            shown = readable(title, spooled.sentence)
            title = _cleaned_completion(shown, title_path(key.source, category.path), cleaner)
            owner = ", ".join(texts_of(metadata.attributes.get("owner", ())))[:MAX_TEXT]
            left_out = (Remark(RemarkKind.IRREGULAR, why) for why in metadata.left_out)
            remarks = (*self._expired(document), *choice.remarks, *parsed.remarks, *left_out, *cleaner.remarks)
            document = replace(document, title=title, owner=owner, remarks=bounded(remarks))
            provenance = Provenance(
                channel=arrival.channel,
                attested=arrival.attested,
                at_most=at_most.path if at_most else "",
                claims=_claims(document) if category.tier is not Tier.INTERNAL else (),
                object_checksum=hashed.digest(),
                object_version=info.version,
                parser=parsed.format,
                reviewed_by=review.by if review else "",
            )
            yield ParsedDocument(document, category, text, spooled.lines, provenance, cleaner.suspected)

    def _sidecar_metadata(self, object_key: str) -> dict[str, Any]:
        name = object_key + SIDECAR_SUFFIX
        try:
            with self.store.open(name) as stream:
                found = parse_sidecar(stream.read(self.max_bytes), name)
        except ObjectNotFoundError:
            return {}
        check_given(found, name=name)
        return found

    def _recognised(
        self, source: str, info: ObjectInfo, category: Category, choice: CategoryChoice, stream: BinaryIO
    ) -> tuple[Category, BinaryIO]:
        """The category, and the stream at its beginning. An internal file of alerting rules gets the category of rules in any
        folder: it would be found instead of the runbooks of its alerts."""
        rules = self.knowledge.categories.get(ALERT_RULES_CATEGORY)
        suffix = PurePosixPath(source).suffix.lower()
        if not rules or choice.is_stated or category.tier is not Tier.INTERNAL or suffix not in _MAY_BE_RULES:
            return category, stream
        from opx.formats.data.alert_rules import MAX_BYTES, is_rule_file

        if info.size > MAX_BYTES or (suffix == ".json" and category.json_mapping):  # a record of its category
            return category, stream
        data = stream.read()
        return rules if is_rule_file(data) and rules.is_within(category) else category, io.BytesIO(data)

    def _document(
        self,
        key: DocumentKey,
        info: ObjectInfo,
        category: Category,
        metadata: DocumentMetadata,
        identity: tuple[str, str],
    ) -> KnowledgeDocument:
        title, digest = identity
        now = iso_time(self.clock())
        updated = metadata.last_updated or now
        if category.tier is not Tier.INTERNAL:  # what its author states can't make it younger, nor keep it longer
            updated = min(updated, now)
        return KnowledgeDocument(
            document_id=document_id(title, category.path, digest),
            scope=key.scope,
            source=key.source,
            title=title,
            category=category.path,
            tier=category.tier,
            trust=category.trust,
            location=info.location,
            source_uri=metadata.source_uri or info.location,
            created_at=metadata.created or now,
            metadata=Revision(author=metadata.author, version=metadata.version, last_updated=updated),
            content_hash=digest,
            **metadata.facts() | {"expires": self._expiry(category, metadata.expires, updated, now)},
        )

    def _expiry(self, category: Category, stated: str, updated: str, now: str) -> str:
        """The expiry day of a document. One from outside can't state a later day than its category's retention gives."""
        days = [stated, fetched_expiry(category, now)]
        if stated and category.tier is not Tier.INTERNAL:
            days.append(expiry_of(category.path, updated, self.knowledge))
        return min(filter(None, days), default="")

    def is_expired(self, document: KnowledgeDocument) -> bool:
        """True if a document is past its retention now, ingested at this moment."""
        return any(self._expired(document))

    def _expired(self, document: KnowledgeDocument) -> Iterator[Remark]:
        now = iso_time(self.clock())
        day = expiry_day(replace(document, current_since=now), self.knowledge)
        if day and day <= now:
            yield Remark(RemarkKind.EXPIRED, self._why_expired(document, day))

    def _why_expired(self, document: KnowledgeDocument, day: str) -> str:
        kept = "kept out by retention, and not embedded: the next `opx prune` removes it"
        if document.expires and document.tier is not Tier.INTERNET:
            return f"it states that it expired on {day}: {kept}"
        age = readable_retention(self.knowledge.category(document.category).retention)
        return f"older than {age} ({document.category}), it expired on {day}: {kept}"


_CLAIMED = {
    "title": "title",
    "source_uri": "source",
    "owner": "owner",
    "author": "author",
    "expires": "expires",
    "severity": "severity",
}
"""Fields of a document that its author states, with their names in JSON."""


def _claims(document: KnowledgeDocument) -> tuple[str, ...]:
    """Names of the stated fields of a document from outside, which nobody verified."""
    return tuple(name for field, name in _CLAIMED.items() if getattr(document, field))


class HashedStream(io.RawIOBase):
    """A stream that computes the SHA-256 of what is read from another, which the caller closes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self._hash.update(data)
        return len(data)

    def digest(self) -> str:
        """The SHA-256 of the whole stream, in hexadecimal; what is left is read."""
        while data := self._stream.read(_HASH_BLOCK):
            self._hash.update(data)
        return self._hash.hexdigest()


def title_path(source: str, category: str) -> str:
    """The part of a source that may complete a title."""
    return source.removeprefix(DOCUMENTS_FOLDER).removeprefix(f"{category}/")


def _uploaded_metadata(info: ObjectInfo, source: str) -> dict[str, Any]:
    text = info.metadata.get(OBJECT_METADATA)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as exc:
        raise UnparsableDocumentError(f"{source}: its object metadata {OBJECT_METADATA} is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise UnparsableDocumentError(f"{source}: its object metadata {OBJECT_METADATA} is not a JSON object")
    return found


def _cleaned_completion(title: str, path: str, cleaner: Cleaner) -> str:
    """Completes an uninformative title by the path, which may contain a secret."""
    whole = completed(title, path)
    return title if whole == title else cleaner.value("title", whole)


def _cleaned(metadata: DocumentMetadata, cleaner: Cleaner) -> DocumentMetadata:
    """The metadata without secrets, but for the title, which is chosen later."""
    texts = {
        name: cleaner.value(name, getattr(metadata, name)) for name in ("author", "source_uri", "severity", "version")
    }
    lists = {
        name: tuple(cleaner.value(name, value) for value in getattr(metadata, name)) for name in ("tags", "services")
    }
    attributes = {
        cleaner.value("metadata", name): _cleaned_value(name, value, cleaner)
        for name, value in metadata.attributes.items()
    }
    return replace(metadata, **texts, **lists, attributes=attributes)


def _cleaned_value(name: str, value: Any, cleaner: Cleaner) -> Any:
    """An attribute without secrets, among them those that only its name gives away (`password: ...`)."""
    if isinstance(value, list):
        return [_cleaned_value(name, one, cleaner) for one in value]
    if not isinstance(value, str):
        return value
    stated = f"{name}: "
    return cleaner.value(name, stated + value).removeprefix(stated)


@dataclass(frozen=True, slots=True)
class _Spooled:
    """The first level-one heading and sentence ("" for none), the hash of the text, and its lines if they are few."""

    heading: str
    sentence: str
    digest: str
    lines: Sequence[Line] | None


def _spool(pieces: Iterator[str], text: IO[str]) -> _Spooled:
    digest = hashlib.sha256()
    heading = sentence = ""
    kept: list[Line] | None = []
    for some in batched(scan(pieces), _LINES_TOGETHER):
        joined = "".join([line.text for line in some])
        text.write(joined)
        digest.update(joined.encode("utf-8", "surrogatepass"))
        heading = heading or next((line.heading for line in some if line.level == 1 and line.heading), "")
        sentence = sentence or _first_sentence("".join([line.text for line in some if not line.level]))
        if kept is not None:
            kept += some
            kept = kept if some[-1].start < _KEEP_LINES_BELOW else None
    return _Spooled(heading, sentence, digest.hexdigest(), kept)


def _first_sentence(text: str) -> str:
    from opx.text.procedures.phrases import plain, sentences  # with its many patterns, only when a document is read

    found = next((one for one in sentences(text[:_LONGEST]) if any(map(str.isalnum, one))), "")
    return shortened(plain(found).strip("`#>|*-+~ ").rstrip("."), _SENTENCE)


def _language(text: IO[str]) -> str:
    """Language of the text's beginning, so that it is deterministic; English if undetected."""
    text.seek(0)
    return detect_language(text.read(READ_CHARACTERS)).language
