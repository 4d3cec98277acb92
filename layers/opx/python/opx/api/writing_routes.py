"""The routes that write, and the one that those need who do."""

from __future__ import annotations

from typing import Any

from opx.api.declarations import MAX_KEY_CHARACTERS, Function, Route, TokenScope, text_field
from opx.api.fields import Field, Kind
from opx.domain.evidence import Evidence
from opx.knowledge_base import MAX_PAGE
from opx.operations.requests import FieldFacts, fields_of

MAX_BATCH = 100
"""Objects that one request changes: each takes S3 some tens of milliseconds, and a request has 30 seconds."""
MAX_STATES = 500
MAX_PUT_BYTES = 5 * 1024**3
"""The largest object that S3 takes in one request."""

_SHA256 = text_field("sha256", "The SHA-256 of its bytes, in hexadecimal.", 64, required=True, pattern="[0-9a-f]{64}")
_SIZE = Field("size", Kind.WHOLE, "How many bytes it has.", required=True, minimum=0, maximum=MAX_PUT_BYTES)
_OBJECT_KEYS = Field(
    "objectKeys",
    Kind.TEXT,
    "Keys of the corpus, as the API gives them.",
    required=True,
    repeated=True,
    minimum=1,
    maximum=MAX_KEY_CHARACTERS,
    most=MAX_BATCH,
)
_METADATA = Field(
    "metadata",
    Kind.OBJECT,
    "What is known about it: title, tags, author, version, severity, services, language, source_uri, and source, the "
    "name that stays when the document changes.",
)
_WRITE = (TokenScope.WRITE, TokenScope.ADMIN)
_DOCUMENT = "A document: Markdown text, or an object that is read as JSON of the category."

_FORM = (
    text_field("source", "The name that stays when the file changes, of a single one; else each file's own.", 1000),
    text_field("title", "The title, of a single file.", 500),
    text_field("tags", "A tag; may be given several times.", repeated=True, most=50),
    text_field("services", "A service that it is about; may be given several times.", repeated=True, most=50),
    text_field("author", "Who wrote it.", 500),
    text_field("version", "Its version."),
    text_field("severity", "Its severity."),
    text_field("language", "Its language, such as en."),
    text_field("source_uri", "Where it comes from, of a single file.", 2048),
)
_KINDS = {"BoolType": Kind.FLAG, "DictType": Kind.OBJECT}


def _evidence_field(field: FieldFacts) -> Field:
    """Texts are bounded here too, so that the OpenAPI document tells the limits."""
    taken: Any = field.kind
    kind = _KINDS.get(type(taken).__name__, Kind.TEXT)
    several = type(taken).__name__ == "UnionType"
    most = taken.types[0].max_length if several else None
    taken = taken.types[1] if several else taken
    maximum = taken.max_length if kind is Kind.TEXT else None
    minimum = 1 if field.required else None
    return Field(field.name, kind, field.about, field.required, several, minimum=minimum, maximum=maximum, most=most)


WRITING = (
    Route(
        name="ingest",
        method="POST",
        path="/ingest/{tier}/{category+}",
        function=Function.MANAGE,
        about="Take documents in: one with its metadata, or several. What is accepted is worked on afterwards.",
        body=(
            Field("document", Kind.DOCUMENT, _DOCUMENT),
            _METADATA,
            Field("documents", Kind.DOCUMENT, _DOCUMENT, repeated=True, most=MAX_BATCH),
            Field("dedupe", Kind.FLAG, "Of `documents`, take equal ones once (the default)."),
        ),
        form=_FORM,
        scopes=_WRITE,
        status=202,
    ),
    Route(
        name="put_evidence",
        method="POST",
        path="/evidence",
        function=Function.MANAGE,
        about="Take in what an agent found out; rules say as what. It is worked on afterwards.",
        body=tuple(_evidence_field(field) for field in fields_of(Evidence)),
        scopes=_WRITE,
        status=202,
    ),
    Route(
        name="upload",
        method="POST",
        path="/uploads",
        function=Function.MANAGE,
        about="Ask where to put a file: addresses that take exactly this file, for 15 minutes.",
        body=(
            text_field(
                "source",
                "The file's name in the corpus; it stays when the file changes.",
                1000,
                required=True,
                minimum=1,
            ),
            _SHA256,
            _SIZE,
            _METADATA,
            Field("sidecar", Kind.OBJECT, "The file of metadata beside it, if there is one.", fields=(_SHA256, _SIZE)),
        ),
        scopes=_WRITE,
    ),
    Route(
        name="delete_objects",
        method="POST",
        path="/objects/delete",
        function=Function.MANAGE,
        about="Remove some of the caller's own objects, with their metadata files, or such files alone.",
        body=(_OBJECT_KEYS,),
        scopes=_WRITE,
    ),
    Route(
        name="object_states",
        method="POST",
        path="/objects/states",
        function=Function.MANAGE,
        about="What became of the caller's own objects that were put.",
        body=(
            Field(
                "objectKeys",
                Kind.TEXT,
                _OBJECT_KEYS.about,
                True,
                True,
                minimum=1,
                maximum=MAX_KEY_CHARACTERS,
                most=MAX_STATES,
            ),
        ),
        scopes=_WRITE,
    ),
    Route(
        name="delete_document",
        method="DELETE",
        path="/documents/{documentId}",
        function=Function.MANAGE,
        about="Remove a document of the caller's own; its versions stay readable. Of one that was removed before, none is.",
        scopes=_WRITE,
    ),
    Route(
        name="retry_failures",
        method="POST",
        path="/failures/retry",
        function=Function.MANAGE,
        about="Try again what could not be taken in.",
        body=(
            text_field("failureIds", "Which ones.", repeated=True, minimum=1, most=MAX_BATCH),
            Field("all", Kind.FLAG, f"True: all of the caller's own, {MAX_PAGE} at most."),
        ),
        scopes=_WRITE,
    ),
)
