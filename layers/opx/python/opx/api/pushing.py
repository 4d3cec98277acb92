"""Files that are pushed as forms, into the corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from opx.api.fields import Json, RequestError
from opx.api.multipart import FILE_FIELD, UploadedFile
from opx.errors import InvalidInputError
from opx.ingestion.parsing import sniffing
from opx.ingestion.parsing.registry import is_binary, is_known
from opx.ingestion.parsing.source import HEAD_BYTES

if TYPE_CHECKING:
    from opx.ingestion.manager import IngestionManager

OF_ONE_FILE = ("source", "title", "source_uri")
"""Metadata that can't be those of several."""


def put_files(
    manager: IngestionManager, category: str, files: Sequence[UploadedFile], metadata: Mapping[str, Any]
) -> Json:
    """Put files, each under its name, or a single one under `source`. What is wrong with one of several doesn't keep
    the others out. Raises `RequestError` for none, and for a single one that is refused."""
    if not files:
        raise RequestError(f"the form has no file; send one or several in the field {FILE_FIELD}")
    for name in OF_ONE_FILE:
        if name in metadata and len(files) > 1:
            raise RequestError(f"{name} goes with a single file only")
    accepted: dict[str, None] = {}
    refused: list[Json] = []
    for index, file in enumerate(files):
        try:
            _check(file)
            source = _source(file, metadata.get("source", ""))
            if any(key.endswith(f"/{category}/{source}") for key in accepted):
                raise RequestError(f"{source}: another file of the form has this name")
            accepted[manager.put_document(category, file.data, {**metadata, "name": file.name, "source": source})] = (
                None
            )
        except InvalidInputError as exc:
            if len(files) == 1:
                raise
            refused.append({"index": index, "reason": str(exc)})
    return {"accepted": [{"objectKey": key} for key in accepted], "refused": refused}


def _check(file: UploadedFile) -> None:
    """Raise `RequestError` for a file that can't be read whatever else is done with it."""
    suffix = PurePosixPath(file.name).suffix
    if not is_known(suffix):
        raise RequestError(f"{file.name}: files of the format {suffix or '(no extension)'} are not read")
    if not file.data:
        raise RequestError(f"{file.name}: the file is empty")
    problem = "" if is_binary(suffix) else sniffing.binary_problem(file.data[:HEAD_BYTES])
    if problem:
        raise RequestError(f"{file.name} is not what its name says: {problem}")


def _source(file: UploadedFile, given: str) -> str:
    """The name that stays when the file changes, with the extension by which it is read."""
    suffix = PurePosixPath(file.name).suffix
    if not given:
        return file.name
    return given if PurePosixPath(given).suffix.lower() == suffix.lower() else given + suffix
