"""Parses multipart/form-data bodies (RFC 7578) with files to ingest: fields, and files with their names, within limits.

Bodies are in memory already: API Gateway and Lambda allow nothing else, and limit them to a few megabytes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from opx.domain.requests import RequestError
from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from opx.ingestion.manager import IngestionManager

MEDIA_TYPE = "multipart/form-data"
FILE_FIELD = "file"
MAX_PARTS = 120
"""A hundred files, and fields."""
MAX_NAME_CHARACTERS = 200
_MAX_FIELD_BYTES = 64 * 1024
_MAX_BOUNDARY = 70
"""RFC 2046, section 5.1.1."""
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Control and formatting characters, which can make one name look like another."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file of a form, with the name given by its sender."""

    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Form:
    """Fields in order, as often as they were given, and files."""

    fields: tuple[tuple[str, str], ...]
    files: tuple[UploadedFile, ...]


@dataclass(slots=True)
class _Part:
    headers: dict[bytes, bytes] = field(default_factory=dict)
    name: bytearray = field(default_factory=bytearray)
    value: bytearray = field(default_factory=bytearray)
    data: bytearray = field(default_factory=bytearray)


def is_form(content_type: str) -> bool:
    """True if a body with this content-type is a form."""
    return content_type.partition(";")[0].strip().lower() == MEDIA_TYPE


def read_form(content_type: str, body: bytes) -> Form:
    """Parses the form in a body. Raises `RequestError` for a malformed body, too many parts, and invalid file names."""
    fields: list[tuple[str, str]] = []
    files: list[UploadedFile] = []
    for part in _parts(_boundary(content_type), body):
        options = _disposition(part)
        name = _text(options.get(b"name", b""), "a part's name")
        if b"filename" in options:
            if name != FILE_FIELD:
                raise RequestError(f"files are sent in the field {FILE_FIELD}, not {name[:60]!r}")
            files.append(UploadedFile(checked_name(_text(options[b"filename"], "a file's name")), bytes(part.data)))
        elif name == FILE_FIELD:
            raise RequestError(f"a part {FILE_FIELD} needs a filename: its extension determines the format")
        else:
            fields.append((name, _field_text(name, part.data)))
    return Form(tuple(fields), tuple(files))


def checked_name(name: str) -> str:
    """The name in Unicode's composed form. Raises `RequestError` for a path, invisible characters, and names that no
    object can have."""
    composed = unicodedata.normalize("NFC", name)
    shown = ascii(composed[:60])
    # Characters that only look like a dot or a slash become one here.
    plain = unicodedata.normalize("NFKC", composed)
    if any(unicodedata.category(character) in _INVISIBLE for character in composed):
        raise RequestError(f"the file name {shown} has invisible characters")
    if any(separator in plain for separator in "/\\") or plain.startswith(".") or plain != plain.strip() or not plain:
        raise RequestError(f"the file name {shown} must be a plain name: no folders, no dot or blank at its ends")
    if plain.endswith(".") or len(composed) > MAX_NAME_CHARACTERS:
        raise RequestError(
            f"the file name {shown} must end with its extension and have {MAX_NAME_CHARACTERS} characters"
        )
    return composed


def _boundary(content_type: str) -> bytes:
    from python_multipart.multipart import parse_options_header

    try:
        found = parse_options_header(content_type)[1].get(b"boundary", b"")
    except ValueError:  # characters that a header can't have
        found = b""
    if not 0 < len(found) <= _MAX_BOUNDARY:
        raise RequestError(f"the content-type {MEDIA_TYPE} needs its boundary")
    return found


def _parts(boundary: bytes, body: bytes) -> Iterator[_Part]:
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser

    parts: list[_Part] = []
    ended: list[bool] = []

    def begin() -> None:
        if len(parts) == MAX_PARTS:
            raise RequestError(f"the form has more than {MAX_PARTS} parts")
        parts.append(_Part())

    def add(to: str, data: bytes, start: int, end: int) -> None:
        found: bytearray = getattr(parts[-1], to)
        found += data[start:end]

    def end_header() -> None:
        part = parts[-1]
        part.headers[bytes(part.name).lower()] = bytes(part.value)
        part.name, part.value = bytearray(), bytearray()

    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": begin,
            "on_header_field": partial(add, "name"),
            "on_header_value": partial(add, "value"),
            "on_header_end": end_header,
            "on_part_data": partial(add, "data"),
            "on_end": lambda: ended.append(True),
        },
    )
    try:
        parser.write(body)
        parser.finalize()
    except FormParserError as exc:
        raise RequestError(f"the body is not {MEDIA_TYPE} with this boundary: {str(exc)[:100]}") from exc
    if not ended:
        raise RequestError(f"the body is not {MEDIA_TYPE} with this boundary, or it was cut off")
    yield from parts


def _disposition(part: _Part) -> dict[bytes, bytes]:
    from python_multipart.multipart import parse_options_header

    kind, options = parse_options_header(part.headers.get(b"content-disposition", b""))
    if kind != b"form-data" or b"name" not in options:
        raise RequestError("a part of the form has no content-disposition with a name")
    return options


def _field_text(name: str, data: bytearray) -> str:
    if len(data) > _MAX_FIELD_BYTES:
        raise RequestError(f"the field {name[:60]!r} may have {_MAX_FIELD_BYTES:,} bytes; files go into {FILE_FIELD}")
    return _text(bytes(data), f"the field {name[:60]!r}")


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise RequestError(f"{name} is not UTF-8") from exc


# -- storing in the corpus

OF_ONE_FILE = ("source", "title", "source_uri")
"""Metadata fields that only a single file can have."""


def put_form(
    manager: IngestionManager, category: str, files: Sequence[UploadedFile], metadata: Mapping[str, Any]
) -> tuple[list[str], list[tuple[int, str]]]:
    """Put files, each under its name, or a single one under `source`; returns their keys, and the index and reason of
    refused ones. A refused file doesn't affect the others. Raises `RequestError` for a form without files, and if a
    single file is refused."""
    if not files:
        raise RequestError(f"the form has no file; send one or several in the field {FILE_FIELD}")
    for name in OF_ONE_FILE:
        if name in metadata and len(files) > 1:
            raise RequestError(f"{name} goes with a single file only")
    accepted: dict[str, None] = {}
    refused: list[tuple[int, str]] = []
    for index, file in enumerate(files):
        try:
            _check(file)
            source = _source(file, metadata.get("source", ""))
            if any(key.endswith(f"/{category}/{source}") for key in accepted):
                raise RequestError(f"{source}: another file of the form has this name")
            key = manager.put_document(category, file.data, {**metadata, "name": file.name, "source": source})
            accepted[key] = None
        except InvalidInputError as exc:
            if len(files) == 1:
                raise
            refused.append((index, str(exc)))
    return list(accepted), refused


def _check(file: UploadedFile) -> None:
    """Raises `RequestError` for a file that no parser can read."""
    from opx.formats.registry import binary_problem, is_binary, is_known
    from opx.formats.source import HEAD_BYTES

    suffix = PurePosixPath(file.name).suffix
    if not is_known(suffix):
        raise RequestError(f"{file.name}: files of the format {suffix or '(no extension)'} are not read")
    if not file.data:
        raise RequestError(f"{file.name}: the file is empty")
    problem = "" if is_binary(suffix) else binary_problem(file.data[:HEAD_BYTES])
    if problem:
        raise RequestError(f"{file.name} does not match its file extension: {problem}")


def _source(file: UploadedFile, given: str) -> str:
    """The stable name of the document, with the extension that determines its parser."""
    suffix = PurePosixPath(file.name).suffix
    if not given:
        return file.name
    return given if PurePosixPath(given).suffix.lower() == suffix.lower() else given + suffix
