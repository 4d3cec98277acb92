"""Trials of sources: their first documents, read without storing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from queue import Empty, Queue
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from opx.connectors.connector import naming_errors, pages_of
from opx.domain.record import Record, about
from opx.domain.sources import Page, PullRequest, Refused, SourceDocument
from opx.errors import InvalidInputError, OpxError

if TYPE_CHECKING:
    from opx.connectors.storing import Connected

SECONDS = 15.0
"""Time limit of a trial: an API Gateway waits 30 seconds."""

EXCERPT = 300
MAX_REFUSED = 5


class TrialDocument(Record, frozen=True, omit_defaults=True):
    """A document that a source has."""

    key: Annotated[str, about("Its name within the source.")]
    title: str = ""
    source_uri: str = ""
    last_updated: str = ""
    size: Annotated[int, about("Characters, or bytes of a file.")] = 0
    text: Annotated[str, about("The beginning of its text, empty for a file.")] = ""


class SourceTrial(Record, frozen=True, omit_defaults=True):
    """The result of a trial: documents that were found before `limit` of them, the time limit or an error ended it."""

    ok: Annotated[bool, about("False if the source can't be pulled; `reason` states why.")]
    reason: Annotated[str, about("The error, with its remedy.")] = ""
    documents: tuple[TrialDocument, ...] = ()
    refused: Annotated[tuple[Refused, ...], about("Some documents that could not be read.")] = ()
    timed_out: Annotated[bool, about("True if the time limit ended it.")] = False


def tried(connect: Callable[[], Connected], *, limit: int, seconds: float = SECONDS) -> SourceTrial:
    """Verifies that a source can be pulled, and reads its first documents, without storing anything.

    The source is read in a thread of its own, as its requests can't be interrupted: it ends with the request in hand.
    Raises `InvalidInputError` for wrong options.
    """
    results: Queue[Page | Exception | None] = Queue()
    ended = Event()
    Thread(target=_read, args=(connect, results, ended), name="source trial", daemon=True).start()
    documents: list[TrialDocument] = []
    refused: list[Refused] = []
    probed = False
    try:
        for page in _pages(results, monotonic() + seconds):
            probed = True
            documents += map(_found, page.documents[: limit - len(documents)])
            refused += page.refused[: MAX_REFUSED - len(refused)]
            if len(documents) == limit:
                break
    except TimeoutError:
        reason = "" if probed else f"it did not answer within {seconds:.0f} seconds"
        return SourceTrial(probed, reason, tuple(documents), tuple(refused), timed_out=True)
    except InvalidInputError:
        raise
    except OpxError as exc:
        return SourceTrial(False, str(exc), tuple(documents), tuple(refused))
    finally:
        ended.set()
    return SourceTrial(True, "", tuple(documents), tuple(refused))


def _read(connect: Callable[[], Connected], results: Queue[Page | Exception | None], ended: Event) -> None:
    """Puts an empty page once the source answered, and its pages, until the end or an error, which are put too."""
    try:
        with closing(connect()) as connected:
            with naming_errors(connected.connector.definition):
                connected.connector.probe()
            results.put(Page())
            for page in pages_of(connected.connector, PullRequest()):
                results.put(page)
                if ended.is_set():
                    return
        results.put(None)
    except Exception as exc:  # noqa: BLE001 - raised again by the thread that waits for it
        results.put(exc)


def _pages(results: Queue[Page | Exception | None], until: float) -> Iterator[Page]:
    """The pages that are put. Raises `TimeoutError`, and errors that are put."""
    while True:
        try:
            result = results.get(timeout=max(0.0, until - monotonic()))
        except Empty:
            raise TimeoutError from None
        if result is None:
            return
        if isinstance(result, Exception):
            raise result
        yield result


def _found(document: SourceDocument) -> TrialDocument:
    metadata: Any = document.metadata
    content = document.content
    text = content if isinstance(content, str) else ""
    return TrialDocument(
        key=document.key,
        title=str(metadata.get("title") or ""),
        source_uri=str(metadata.get("source_uri") or ""),
        last_updated=str(metadata.get("last_updated") or ""),
        size=len(content),
        text=text[:EXCERPT],
    )
