"""Runs a parser of text in the sandbox process if the text is large, and in this process if it is small.

Beautiful Soup needs 2 to 14 s of CPU and 70 to 330 MB for a MB of HTML (3 s and 100 MB of an ordinary page, the most for
200,000 list items), and starting a process that has imported it 0.25 s. At `IN_PROCESS_BYTES` an ordinary page
takes 0.2 to 0.5 s, and the worst one 2 s and 40 MB. A process for each page would make thousands of small ones several times
slower; for larger ones it costs less than half as much again (docs/decisions/0081-large-html-in-the-sandbox.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from opx.errors import OpxError, UnparsableDocumentError
from opx.formats.data.replies import OddRecordError
from opx.formats.sandbox.child import function_of
from opx.formats.sandbox.output import Output, ReadingJob
from opx.formats.sandbox.workspace import Workspace
from opx.formats.source import ParsedSource, Source, cut_lines
from opx.ports.models import ParsingLimits

IN_PROCESS_BYTES = 128 * 1024

Facts = Mapping[str, Any]
_ERROR, _MESSAGE, _RESULT = "error", "message", "result"


def parse_html(source: Source) -> ParsedSource:
    """Converts the page's main part to Markdown; title, description, author and language come from its head."""
    data = b"".join(source.blocks())
    page = call_apart(
        "opx.formats.markup.html:page_of", data, {"name": source.name}, name=source.name, limits=source.tools.limits
    )
    return ParsedSource(page["title"] or None, page["metadata"], cut_lines([page["text"]], source.name))


def call_apart(
    function: str,
    data: bytes,
    facts: Facts,
    *,
    name: str,
    limits: ParsingLimits = ParsingLimits(),  # noqa: B008 (frozen)
    raises: type[Exception] = UnparsableDocumentError,
) -> Any:
    """The result of a function (`package.module:function`) of bytes and facts, which returns plain objects as JSON has them.

    Raises `raises` if the function raised it, or reached a limit; `name` is that of the document in such errors.
    """
    if len(data) <= IN_PROCESS_BYTES:
        return function_of(function)(data, facts)
    job = ReadingJob(
        f"{__name__}:answer_call", name, limits.pages, limits.unpacked_bytes, 0, function=function, facts=dict(facts)
    )
    workspace = Workspace()
    with closing(workspace):
        workspace.write_input(iter((data,)))
        try:
            workspace.run(job, limits)
        except UnparsableDocumentError as exc:
            raise raises(str(exc)) from exc
        found = workspace.head()["metadata"]
    if _ERROR in found:
        kind = raises if found[_ERROR] == raises.__name__ else UnparsableDocumentError
        raise kind(found[_MESSAGE])
    return found[_RESULT]


def answer_call(path: Path, job: ReadingJob, output: Output) -> None:
    """The other side, in the sandbox process."""
    try:
        result = function_of(job.function)(path.read_bytes(), job.facts)
    except (OpxError, OddRecordError) as exc:
        output.finish("", {_ERROR: type(exc).__name__, _MESSAGE: str(exc)})
    else:
        output.finish("", {_RESULT: result})
