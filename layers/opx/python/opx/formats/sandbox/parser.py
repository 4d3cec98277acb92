"""Parses binary formats in a process of its own, which has no credentials and no network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Protocol

from opx.domain.documents import Remark, RemarkKind
from opx.domain.knowledge import Category
from opx.domain.record import replace
from opx.errors import UnparsableDocumentError
from opx.formats.markdown import heading, one_line, plain
from opx.formats.markdown_lines import scan
from opx.formats.metadata import MAX_TEXT
from opx.formats.sandbox.child import INPUT
from opx.formats.sandbox.output import ReadingJob
from opx.formats.sandbox.workspace import Workspace
from opx.formats.source import Format, ParsedSource, Source, cut_lines, well_formed
from opx.formats.writing import with_repeated_heads
from opx.ports.models import ParsingTools

NO_OCR = "there is no OCR: install tesseract, or set OPX_OCR=textract where Amazon Textract may be used"
NO_VISION = "there is no model to describe pictures: set OPX_VISION_MODEL (and OPX_VISION_URL where it isn't Bedrock's)"
_DRAWN_AT_ONCE = 8
"""Scanned pages that are rendered together: more would need more disk, fewer more processes."""
_LEVEL_OF_ATTACHMENTS = 2


class ParseAttachment(Protocol):
    """Parses a document within the document: `opx.formats.registry.parse`."""

    def __call__(self, stream: BinaryIO, *, name: str, category: Category, tools: ParsingTools) -> ParsedSource: ...


def read_apart(source: Source, form: Format, parse: ParseAttachment) -> ParsedSource:
    """Reads a file by the format's `reader` in the sandbox process, and its attachments by `parse`."""
    limits = source.tools.limits
    looked_at = source.tools.describer is not None or (form.is_picture and source.tools.ocr is not None)
    job = ReadingJob(form.reader, source.name, limits.pages, limits.unpacked_bytes, limits.images if looked_at else 0)
    workspace = Workspace()
    try:
        workspace.write_input(source.blocks())
        workspace.run(job, limits)
        head = workspace.head()
    except BaseException:
        workspace.close()
        raise
    reading = SandboxReading(source, job, workspace, form, parse)
    title = one_line(well_formed(str(head["title"])))[:MAX_TEXT]
    lines = with_repeated_heads(cut_lines(reading.blocks(), source.name))
    return ParsedSource(title or None, _short(head["metadata"]), lines, reading.remarks)


def _short(metadata: dict[str, Any]) -> dict[str, Any]:
    """Truncates a file's own metadata, which is no reason to refuse it."""
    return {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in metadata.items()}


class SandboxReading:
    """Converts the parts of one file to text. `remarks` grows while `blocks` is consumed."""

    def __init__(
        self, source: Source, job: ReadingJob, workspace: Workspace, form: Format, parse: ParseAttachment
    ) -> None:
        self._source = source
        self._form = form
        self._parse = parse
        self._job = job
        self._workspace = workspace
        self._tools = source.tools
        self._scans = [part["page"] for part in workspace.parts() if part["kind"] == "scan"]
        self._drawn: dict[int, dict[str, Any]] = {}
        self._undescribed = 0
        self._empty = True
        self.remarks: list[Remark] = []

    def blocks(self) -> Iterator[str]:
        """Yields the text. Raises `UnparsableDocumentError` at the end if there is none."""
        try:
            for part in self._workspace.parts():
                yield from self._part(part)
            if self._undescribed:
                number = "a picture is" if self._undescribed == 1 else f"{self._undescribed:,} pictures are"
                why = NO_VISION if self._tools.describer is None else "OPX_PARSE_IMAGES is reached"
                self._remark(RemarkKind.UNDESCRIBED_IMAGE, f"{number} not described: {why}")
            if self._empty:
                raise UnparsableDocumentError(f"{self._source.name}: {self._why_empty()}")
        finally:
            self._workspace.close()

    def _part(self, part: dict[str, Any]) -> Iterator[str]:
        kind = part["kind"]
        if kind == "text":
            yield from self._text(part["text"])
        elif kind == "unread":
            self._remark(RemarkKind.UNREAD_PART, part["text"])
        elif kind == "irregular":
            self._remark(RemarkKind.IRREGULAR, part["text"])
        elif kind == "scan":
            yield from self._text(self._scanned(part["page"]))
        elif kind == "picture":
            yield from self._text(self._picture(part))
        elif kind == "image":
            yield from self._text(self._image(part))
        elif kind == "attachment":
            yield from self._attachment(part)

    def _text(self, text: str) -> Iterator[str]:
        if text.strip():
            yield ("" if self._empty else "\n") + well_formed(text).strip("\n") + "\n"
            self._empty = False

    def _remark(self, kind: RemarkKind, text: str) -> None:
        self.remarks.append(Remark(kind, well_formed(text)))

    def _why_empty(self) -> str:
        if not self._scans:
            return "there is no text in it; export it again with its text"
        pages = "its only page is a picture" if len(self._scans) == 1 else "its pages are pictures"
        return f"{pages} without text, and {NO_OCR}" if self._tools.ocr is None else f"{pages}, and OCR found no text"

    def _unread(self, text: str) -> str:
        """Adds a remark with the reason; returns no text."""
        self._remark(RemarkKind.UNREAD_PART, text)
        return ""

    def _scanned(self, page: int) -> str:
        """The text of a page that is a picture."""
        if self._tools.ocr is None:
            return self._unread(f"page {page} has no text, and {NO_OCR}")
        if self._scans.index(page) >= self._tools.limits.images:
            return self._unread(f"page {page} is a picture beyond the limit (OPX_PARSE_IMAGES)")
        if page not in self._drawn:
            self._draw(page)
        drawn = self._drawn.get(page)
        if drawn is None:
            return self._unread(f"page {page} is broken")
        try:
            text = self._tools.ocr.read(self._bytes(drawn), media_type=drawn["media_type"])
        except UnparsableDocumentError as exc:
            return self._unread(f"page {page} is not read: {exc}")
        if not text.strip():
            self._unread(f"page {page} has no text, and OCR found none in its picture")
        return plain(text)

    def _draw(self, page: int) -> None:
        """Renders this page and the next scanned ones; the previous pictures are deleted."""
        at = self._scans.index(page)
        job = replace(self._job, reader=self._form.draw, draw=tuple(self._scans[at : at + _DRAWN_AT_ONCE]))
        drawing = Workspace()
        drawing.file(INPUT).symlink_to(self._workspace.file(INPUT))
        drawing.run(job, self._tools.limits)
        self._drawn = {part["page"]: {**part, "from": drawing} for part in drawing.parts() if part["kind"] == "drawn"}

    def _bytes(self, part: dict[str, Any]) -> bytes:
        workspace: Workspace = part.get("from", self._workspace)
        return workspace.file(part["file"]).read_bytes()

    def _picture(self, part: dict[str, Any]) -> str:
        """A picture within the document, as a paragraph with its description."""
        if self._tools.describer is None or not part["file"]:
            self._undescribed += 1
            return ""
        found = self._described(part, f"{part['name']} of {self._source.name}")
        return f"Picture: {plain(found)}" if found else ""

    def _described(self, part: dict[str, Any], name: str) -> str:
        assert self._tools.describer is not None
        try:
            return self._tools.describer.describe(self._bytes(part), media_type=part["media_type"], hint=name).strip()
        except UnparsableDocumentError as exc:
            self._remark(RemarkKind.UNDESCRIBED_IMAGE, f"{name} is not described: {exc}")
            return ""

    def _image(self, part: dict[str, Any]) -> str:
        """The document as a picture: its description and its text, or at least its name."""
        name = self._source.name
        shown = recognized = ""
        if self._tools.describer is not None:
            shown = self._described(part, name)
        else:
            self._undescribed += 1
        if self._tools.ocr is not None:
            try:
                recognized = self._tools.ocr.read(self._bytes(part), media_type=part["media_type"]).strip()
            except UnparsableDocumentError as exc:
                self._remark(RemarkKind.UNREAD_PART, f"the text in the picture is not read: {exc}")
        found = [plain(shown), f"Text in the picture:\n\n{plain(recognized)}" if recognized else ""]
        return "\n\n".join(text for text in found if text) or f"Picture: {plain(_readable(name))}"

    def _attachment(self, part: dict[str, Any]) -> Iterator[str]:
        """A document within the document, as a section under its name."""
        name = one_line(part["name"]) or "attachment"
        limits = self._tools.limits
        if limits.attachments < 1:
            self._remark(RemarkKind.UNREAD_PART, f"{name} is not read: attachments are nested too deeply")
            return
        tools = replace(self._tools, limits=replace(limits, attachments=limits.attachments - 1))
        try:
            with self._workspace.file(part["file"]).open("rb") as stream:
                inner = self._parse(stream, name=name, category=self._source.category, tools=tools)
                lines = list(_demoted(inner.lines))
        except UnparsableDocumentError as exc:
            self._remark(RemarkKind.UNREAD_PART, f"attachment {_without_name(str(exc), name)}")
            return
        yield from self._text(heading(_LEVEL_OF_ATTACHMENTS, f"Attachment: {name}"))
        yield from self._text(_about(inner))
        yield from self._text("".join(lines))
        self.remarks.extend(Remark(each.kind, f"{name}: {each.text}") for each in inner.remarks)


def _demoted(lines: Iterator[str]) -> Iterator[str]:
    """The text with its headings below that of an attachment."""
    for line in scan(lines):
        if line.level:
            blank = line.text[len(line.text.rstrip()) :]
            yield heading(line.level + _LEVEL_OF_ATTACHMENTS, line.heading) + (blank or "\n")
        else:
            yield line.text


def _about(inner: ParsedSource) -> str:
    """An attached document's own metadata."""
    known = (
        ("Title", inner.title),
        ("Author", inner.metadata.get("author")),
        ("Date", inner.metadata.get("created_at")),
    )
    return "\n".join(f"- {label}: {one_line(str(value))}" for label, value in known if value)


def _without_name(message: str, name: str) -> str:
    return message if message.startswith(name) else f"{name}: {message}"


def _readable(name: str) -> str:
    return PurePosixPath(name).stem.replace("-", " ").replace("_", " ").strip() or name
