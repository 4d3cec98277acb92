"""Pairs of documents that say nearly the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.scopes import Identity
from opx.errors import UnknownCategoryError
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx_quality.duplicates import Duplicates, ListDuplicates, list_duplicates
from tests.support.agent_calls import a_system

FAN = (
    "# Fan\n\nReplace the fan when the tray is out of order and the light on it blinks in red for more than {}. Then close "
    "the tray, and wait until the light is green again.\n"
)
FIRST, COPY = "documents/runbooks/fan.md", "documents/postmortems/fan.md"
OWN, OTHER = "clients/acme/documents/runbooks/fan.md", "clients/other/documents/runbooks/fan.md"
CORPUS = {
    FIRST: FAN.format("a minute"),
    COPY: FAN.format("one minute"),
    OWN: FAN.format("two minutes"),
    OTHER: FAN.format("a whole minute"),
    "documents/runbooks/disk.md": "# Disk\n\nDelete the rotated logs, then grow the volume.\n",
    "documents/runbooks/port.md": FAN.format("a minute").replace("light", "LED-7"),
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home"), CORPUS) as found:
        yield found


def listed(system: System, client: str = "", category: str = "") -> Duplicates:
    caller = Caller(Identity(client), token_scopes=frozenset({"opx/read"}))
    return list_duplicates(Context(system, caller), ListDuplicates(category=category))


def names(found: Duplicates) -> list[tuple[str, str]]:
    return [(f"{one.first.scope} {one.first.key}", f"{one.second.scope} {one.second.key}") for one in found.pairs]


def test_copies_are_listed_with_the_document_that_they_are_of(system: System) -> None:
    found = listed(system)
    assert [{first, second} for first, second in names(found)] == [{f"global {FIRST}", f"global {COPY}"}]
    assert (found.pairs[0].passages, found.pairs[0].of, found.compared, found.more) == (1, 1, 4, False)


def test_documents_of_other_clients_are_in_no_pair(system: System) -> None:
    pairs = names(listed(system, "acme"))
    scopes = {name.split()[0] for pair in pairs for name in pair}
    assert (len(pairs), scopes) == (2, {"global", "client:acme"})


def test_a_category_narrows_them(system: System) -> None:
    assert names(listed(system, category="runbooks")) == []
    assert listed(system, category="runbooks").compared == 3
    with pytest.raises(UnknownCategoryError):
        listed(system, category="gossip")


def test_a_document_whose_text_is_gone_is_left_out(tmp_path: Path) -> None:
    with a_system(tmp_path, {FIRST: FAN.format("a minute"), COPY: FAN.format("one minute")}) as system:
        for info in list(system.store.list("chunks/")):
            system.store.delete(info.key)
        assert (listed(system).pairs, listed(system).compared) == ((), 2)
