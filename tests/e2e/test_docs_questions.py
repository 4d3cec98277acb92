"""`search_docs` over the documentation of a product: the questions that its users wrote down before it existed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opx.domain.queries import SearchMode
from opx.domain.scopes import Identity
from opx.operations.context import Caller, Context
from opx.operations.search_tools import SearchDocs, search_docs
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap

PAGES = {
    "Modules": """A module bundles hooks, cronjobs, commands and functions. Install a module on a game
server to switch them on.
## Creating a module
Send its name and description to the controller. A module may have a configuration schema.
## Versions
Publishing a module tags a version. Servers keep the version that they have installed until somebody upgrades them.""",
    "Module API": """## moduleControllerCreate
`moduleControllerCreate(body)` creates a module and returns its id. It needs the permission MANAGE_MODULES.
## moduleControllerRemove
`moduleControllerRemove(id)` deletes a module with everything in it.
## moduleControllerSearch
`moduleControllerSearch(filters)` lists modules, newest first.""",
    "Hooks": """A hook runs a function when something happens in the game, such as a player who connects or a chat message.
## Regular expressions
A hook may have a regular expression. It runs only when the text of the event matches.
## Hooks and commands
Commands are chat messages with a prefix. A hook on chat messages sees commands, too: exclude the prefix in its expression
if it must not work with commands, or call the same function from both.""",
    "Events": """Every event has a type and a timestamp.
## Player events
`hook.player.connected` is sent when a player joins, `hook.player.disconnected` when one leaves. Both carry the player's id.
## Entity events
`hook.entity.killed` is sent when a creature dies.""",
    "Cronjobs": """A cronjob runs a function on a schedule, written as five fields: minute, hour, day, month, weekday.
## Schedule
`0 4 * * *` runs at four each morning in UTC. Runs don't overlap: one that is late is skipped.
## Logs
Each run leaves an event with what the function printed.""",
    "Commands": """Players type a command into the chat. Commands begin with a prefix, `/` unless the server says otherwise.
## Arguments
An argument has a name, a type and a default. Wrong arguments are answered with the help text.
## Cooldown
A cooldown keeps a player from repeating a command.""",
    "Functions": """A function is JavaScript that runs in a sandbox with thirty seconds of time and no access to the
network but for the API. Functions are shared by hooks, cronjobs and commands of their module.""",
    "Moderation": """## Ban a player
Ban a player with a reason and, if you like, an end. The player is kicked at once and sees the reason.
## Kick
A kick removes a player who may come back.
## Mute
A muted player can't write to the chat.""",
    "Variables": """A variable keeps a value between runs of functions. It belongs to a key, and may be bound to a
player, a server or a module. Variables that expire are removed by the hour.""",
    "Permissions and roles": """Roles hold permissions. A player has the roles that were assigned, and those of the
server. MANAGE_MODULES lets somebody install and change modules.""",
    "Economy": """Players earn currency for playing, and spend it in the shop. Transactions are kept
for a year.""",
    "Installation": """Run the installer on a machine with Docker. It needs a domain, four gigabytes
of memory, and a Postgres database.""",
}

QUESTIONS = {
    "moduleControllerCreate": "Module API",
    "hook.player.connected": "Events",
    "how do cronjobs work": "Cronjobs",
    "ban player with reason": "Moderation",
    "how do hooks work with commands": "Hooks",
}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    with bootstrap(Settings(home=str(tmp_path_factory.mktemp("home")))) as system:
        _ingest_pages(system)
        yield Context(system, Caller(Identity(), owns_system=True))


def _ingest_pages(system: System) -> None:
    for title, text in PAGES.items():
        source = f"{title.lower().replace(' ', '-')}.md"
        system.manager.put_document("runbooks/procedures", f"# {title}\n\n{text}\n", {"source": source})
    assert all(outcome.chunks for outcome in system.manager.work())


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize(("question", "page"), QUESTIONS.items())
def test_five_pages_are_given_the_right_one_first(context: Context, question: str, page: str, mode: SearchMode) -> None:
    found = search_docs(context, SearchDocs(question, thoroughness=mode)).record()
    assert len(found.results) == 5
    assert found.results[0].title == page
    assert found.results[0].band != "weak"
    assert found.results[0].content


def test_an_exact_name_is_sure(context: Context) -> None:
    for question in (
        "moduleControllerCreate",
        "what does moduleControllerCreate return when the body has no name in it?",
    ):
        first = search_docs(context, SearchDocs(question)).record().results[0]
        assert (first.title, first.band) == ("Module API", "sure")


def test_nothing_is_given_where_nothing_is_near(context: Context) -> None:
    found = search_docs(context, SearchDocs("how long does a stew have to simmer"))
    assert not found.record().results
    assert "No good answer" in found.text()
