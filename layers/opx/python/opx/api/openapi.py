"""The HTTP API as an OpenAPI document: `python -m opx.api.openapi docs/api` writes it, the same bytes every time."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from opx.api.fields import Field, Json, object_schema
from opx.api.replies import REPLIES, SCHEMAS
from opx.api.routes import ROUTES, Route
from opx.operations.forms import FILE_FIELD, MEDIA_TYPE
from opx.wire import API_VERSION

FILE_NAME = "http-api.json"

_ERRORS = {
    "400": "Something in the request is wrong; the message says what is accepted.",
    "403": "Nobody says who the caller is, or the caller may not do this.",
    "404": "There is no such thing that the caller may see.",
    "409": "It was changed meanwhile, or is being worked on; the message says whether to try again.",
    "413": "The request or its reply is too large.",
    "500": "The request failed; the error was logged.",
    "503": "The knowledge base is unavailable for now; the header Retry-After says in how many seconds to try again.",
}
_DESCRIPTION = (
    "Questions and documents of OPX Knowledge. What a caller sees and whose documents it changes follows from who the "
    "caller is, never from a request: from the token's claims `opx_client_id` and `opx_project_id`, or, for a caller "
    "with an IAM role, from how the installation is configured. A field that may be left out may also be null."
)


def document() -> Json:
    """OpenAPI 3.1."""
    paths: Json = {}
    for route in ROUTES.values():
        paths.setdefault(route.path.replace("+}", "}"), {})[route.method.lower()] = _operation(route)
    error = _content({"$ref": "#/components/schemas/Error"})
    return {
        "openapi": "3.1.0",
        "info": {"title": "OPX Knowledge", "version": f"{API_VERSION}.0.0", "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "responses": {
                f"Error{status}": {"description": about, "content": error} for status, about in _ERRORS.items()
            },
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


_SECURITY_SCHEMES: Json = {
    "role": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "AWS Signature Version 4 for the service execute-api, where the API is deployed with IAM.",
        "x-amazon-apigateway-authtype": "awsSigv4",
    },
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of the configured issuer and audience, where the API is deployed with tokens.",
    },
}


def _operation(route: Route) -> Json:
    parameters = [_parameter(field, "path") for field in route.path_fields]
    parameters += [_parameter(field, "query") for field in route.query]
    body = {"required": True, "content": _accepted(route)} if route.body is not None else None
    return {
        "operationId": re.sub("_([a-z])", lambda match: match[1].upper(), route.name),
        "summary": route.about,
        **({"parameters": parameters} if parameters else {}),
        **({"requestBody": body} if body else {}),
        "responses": {
            str(route.status): {"description": "Done.", "content": _content(REPLIES[route.name])},
            **{status: {"$ref": f"#/components/responses/Error{status}"} for status in _ERRORS},
        },
        "security": [{"role": []}, *({"token": [scope.value]} for scope in route.scopes)]
        if route.scopes
        else [{"role": []}, {"token": []}],
    }


def _parameter(field: Field, place: str) -> Json:
    schema = field.schema()
    description = schema.pop("description")
    return {"name": field.name, "in": place, "required": field.required, "description": description, "schema": schema}


def _accepted(route: Route) -> Json:
    """What a body may be, by media type."""
    found = _content(object_schema(route.body or ()))
    if route.form is None:
        return found
    form = object_schema(route.form)
    files = {
        "type": "array",
        "items": {"type": "string", "contentMediaType": "application/octet-stream"},
        "minItems": 1,
        "description": "A file, under its name, whose extension tells the format; may be given several times.",
    }
    schema = {**form, "properties": {FILE_FIELD: files, **form["properties"]}, "required": [FILE_FIELD]}
    return {**found, MEDIA_TYPE: {"schema": schema}}


def _content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def text() -> str:
    """The document as it is written."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the document into the folder that is named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m opx.api.openapi FOLDER\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE_NAME).write_text(text(), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
