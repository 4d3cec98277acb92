"""Counts and removes a client's objects of the corpus, messages about them, and segments of words."""

from __future__ import annotations

from functools import partial

from opx.domain.scopes import scope_of_object
from opx.errors import InvalidInputError, InvalidScopeError
from opx.ingestion.events import parse_event
from opx.ingestion.indexing.capability import Indexing
from opx.ingestion.indexing.words import FOLDER as WORDS
from opx.ports import Storage, WorkQueue
from opx.ports.holdings import CountedHolding, HeldItems, Holding

_FOLDERS = ("objects of the corpus, with versions", "copies for a managed service, with versions")


def corpus_holdings(storage: Storage, work: WorkQueue) -> list[Holding]:
    def messages(held: HeldItems, *, dry: bool) -> int:
        found = work.discard(partial(_is_about, held.client_id), dry=dry)
        return found or 0

    waiting = CountedHolding("waiting messages", partial(messages, dry=True), partial(messages, dry=False))
    copies, objects = (_folder(storage, name, at) for at, name in ((1, _FOLDERS[1]), (0, _FOLDERS[0])))
    return [waiting, copies, objects]


def words_holdings(storage: Storage, indexing: Indexing) -> list[Holding]:
    """Segments of words with documents of the client; none where the index never sleeps. All are removed, with their earlier
    versions: the next one is made without the client."""
    if not indexing.indexes.may_sleep:
        return []
    shelf = indexing.words_shelf(storage.objects)

    def count(held: HeldItems) -> int:
        return sum(held.client_id in clients for clients in shelf.clients())

    def remove(_: HeldItems) -> None:
        storage.history.erase(WORDS)

    return [CountedHolding("segments of words", count, remove)]


def _folder(storage: Storage, name: str, at: int) -> Holding:
    history = storage.history
    return CountedHolding(
        name,
        lambda held: sum(1 for _ in history.held(held.folders[at])),
        lambda held: history.erase(held.folders[at]),
    )


def _is_about(client_id: str, body: str) -> bool:
    try:
        return scope_of_object(parse_event(body).key)[0].client_id == client_id
    except (InvalidInputError, InvalidScopeError):
        return False
