"""What was put, and all that the corpus store keeps of it. It goes last: as long as it is there, the rest can be found."""

from __future__ import annotations

from functools import partial

from opx.domain.scopes import scope_of_object
from opx.errors import InvalidInputError, InvalidScopeError
from opx.ingestion.events import parse_event
from opx.lifecycle.clients.holdings import Counted, Held, Holding
from opx.ports import Storage, WorkQueue

_FOLDERS = ("objects of the corpus, with versions", "copies for a managed service, with versions")


def corpus_holdings(storage: Storage, work: WorkQueue) -> list[Holding]:
    def messages(held: Held, *, dry: bool) -> int:
        found = work.discard(partial(_is_about, held.client_id), dry=dry)
        return found or 0

    waiting = Counted("waiting messages", partial(messages, dry=True), partial(messages, dry=False))
    copies, objects = (_folder(storage, name, place) for place, name in ((1, _FOLDERS[1]), (0, _FOLDERS[0])))
    return [waiting, copies, objects]


def _folder(storage: Storage, name: str, place: int) -> Holding:
    history = storage.history
    return Counted(
        name,
        lambda held: sum(1 for _ in history.held(held.folders[place])),
        lambda held: history.erase(held.folders[place]),
    )


def _is_about(client_id: str, body: str) -> bool:
    try:
        return scope_of_object(parse_event(body).key)[0].client_id == client_id
    except (InvalidInputError, InvalidScopeError):
        return False
