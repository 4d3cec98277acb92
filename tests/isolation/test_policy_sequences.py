"""Random sequences of calls by principals of several clients, projects and roles: none gains another project's documents.

The operations are the real ones, on an embedded system, with the callers that verified tokens make. Each document has a word
of its own. After every call the reply is searched for words that its caller may not know, and in the end every project looks
at all that it can see. Only moves by a client's administrator or by an operator may change what a project sees.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from opx.domain.policy import SCOPES, Role, roles_of
from opx.domain.requests import read_request
from opx.domain.scopes import Identity, Scope
from opx.edges.calling import json_bytes, perform
from opx.edges.claims import caller_of_claims
from opx.errors import OpxError
from opx.operations import load
from opx.operations.context import Context
from opx.operations.system import System
from opx.settings import Settings
from tests.support.attacks import AttackReport, examples
from tests.support.cli_support import word_services

STEPS = 12
PROJECTS, GROUPS = ("shop", "depot", "lab"), ("retail", "")
WORD = re.compile(r"mark\d+x")
REGISTRY = load()

pytestmark = pytest.mark.timeout(600)

Fields = dict[str, Any]

places = st.sampled_from([("", ""), *((client, project) for client in "ab" for project in ("", *PROJECTS))])
of_projects = st.sampled_from([(client, project) for client in "ab" for project in PROJECTS])
scopes = st.sampled_from([SCOPES, *(frozenset({one}) for one in sorted(SCOPES)), frozenset[str]()])

LOOKS: tuple[tuple[str, Fields], ...] = (
    ("list_documents", {"allVersions": True}),
    ("search", {"q": "disk", "limit": 20}),
    ("list_objects", {"under": "/"}),
    ("list_failures", {}),
    ("list_gaps", {}),
    ("list_duplicates", {}),
    ("list_contradictions", {}),
    ("list_holds", {}),
    ("list_reviews", {"days": 3650}),
    ("list_audit_records", {}),
    ("list_entries", {}),
    ("list_aliases", {}),
    ("get_status", {}),
    ("get_usage", {}),
    ("get_costs", {}),
    ("list_prunings", {}),
)
"""Calls that list whatever their caller may see."""


class Attack(RuleBasedStateMachine):
    """Clients `a` and `b` with projects of the same names. `grouped`: decisions of a client's administrator or operator."""

    services: ClassVar[System]
    numbers: ClassVar[Iterator[int]] = itertools.count(1)
    words: ClassVar[dict[str, Scope]] = {}

    @initialize()
    def new_clients(self) -> None:
        number = next(self.numbers)
        self.clients = {name: f"{name}{number}" for name in "ab"} | {"": ""}
        self.grouped: dict[tuple[str, str], str] = {}
        self.documents: list[str] = []
        self.keys: list[str] = []
        for project in PROJECTS:
            self.put(("a", project), frozenset({"opx/write"}))

    # -- calls

    @rule(place=places, scopes=scopes)
    def put(self, place: tuple[str, str], scopes: frozenset[str]) -> None:
        word = f"mark{next(self.numbers)}x"
        own = Scope(self.clients[place[0]], project_id=place[1])
        self.words[word] = own
        document = {"document": f"# Disk {word}\n\nservice:{word}|DEPENDS_ON|service:db\n\n1. Delete logs of {word}.\n"}
        fields = {
            "tier": "internal",
            "category": "runbooks/procedures",
            **document,
            "metadata": {"source": f"{word}.md"},
        }
        reply = self.call(place, scopes, "ingest", fields)
        assert (reply is not None) == bool(roles_of(scopes, own) & self.writers(own))
        self.keys += [one.object_key for one in reply.accepted] if reply else []
        self.documents += [one.document_id for one in self.services.manager.work() if one.document_id]

    def writers(self, own: Scope) -> set[Role]:
        strong = {Role.CURATOR, Role.PROJECT_ADMIN, Role.CLIENT_ADMIN, Role.OPERATOR}
        return {Role.WRITER, *strong} if own.client_id else strong

    @rule(place=places, scopes=scopes, moved=of_projects, group=st.sampled_from(GROUPS))
    def assign(self, place: tuple[str, str], scopes: frozenset[str], moved: tuple[str, str], group: str) -> None:
        self.move(place, scopes, moved, "assign_project", {"groupId": group}, group)

    @rule(place=of_projects, scopes=scopes, moved=of_projects)
    def join(self, place: tuple[str, str], scopes: frozenset[str], moved: tuple[str, str]) -> None:
        """A project puts itself and another one into one group."""
        for one in (place, moved):
            self.assign(place, scopes, one, GROUPS[0])

    @rule(place=places, scopes=scopes, moved=of_projects)
    def unregister(self, place: tuple[str, str], scopes: frozenset[str], moved: tuple[str, str]) -> None:
        self.move(place, scopes, moved, "remove_project", {}, "")

    def move(
        self,
        place: tuple[str, str],
        scopes: frozenset[str],
        moved: tuple[str, str],
        name: str,
        fields: Fields,
        group: str,
    ) -> None:
        client, project = self.clients[moved[0]], moved[1]
        reply = self.call(place, scopes, name, {"clientId": client, "projectId": project, **fields})
        own = Scope(self.clients[place[0]], project_id=place[1])
        if roles_of(scopes, own) & {Role.CLIENT_ADMIN, Role.OPERATOR} and own.client_id in ("", client):
            assert reply is not None
            self.grouped[client, project] = group
        # Any other move that succeeded is found by `look`.

    @precondition(lambda self: self.documents)
    @rule(place=places, scopes=scopes, moved=of_projects, which=st.integers(0, 999), kind=st.integers(0, 12))
    def try_something(
        self, place: tuple[str, str], scopes: frozenset[str], moved: tuple[str, str], which: int, kind: int
    ) -> None:
        """Names a document, an object or a project, which may be of any client."""
        document, key = self.documents[which % len(self.documents)], self.keys[which % len(self.keys)]
        client = self.clients[moved[0]]
        project = {"clientId": client, "projectId": moved[1]}
        tries: tuple[tuple[str, Fields], ...] = (
            ("get_document", {"documentId": document}),
            ("read_chunks", {"documentId": document}),
            ("restore_document", {"documentId": document, "version": 1}),
            ("delete_document", {"documentId": document}),
            ("delete_objects", {"objectKeys": [key]}),
            ("get_object_states", {"objectKeys": [key]}),
            ("add_hold", {"reason": "case", "within": f"client:{client}/project:{moved[1]}"}),
            ("get_project", project),
            ("preview_project_move", {**project, "groupId": "retail"}),
            ("list_projects", {"clientId": client}),
            ("capture_entry", {**_a_failure(), "project_id": moved[1]}),
            ("find_nodes", {"q": "mark"}),
            ("get_node", {"ref": "service:db"}),
        )
        self.call(place, scopes, *tries[kind])
        self.documents += [one.document_id for one in self.services.manager.work() if one.document_id]

    def call(self, place: tuple[str, str], scopes: frozenset[str], name: str, fields: Fields) -> Any:
        """The reply, None for a refusal. Fails if it has a word that the caller may not know."""
        identity = Identity(self.clients[place[0]], place[1])
        claims = {"opx_client_id": identity.client_id, "opx_project_id": identity.project_id, "scope": " ".join(scopes)}
        operation = REGISTRY.get(name)
        assert operation is not None
        try:
            context = Context(self.services, caller_of_claims(claims))
            reply = perform(operation, context, read_request(operation.request, fields))
            shown = json_bytes(reply).decode()
        except OpxError as exc:
            reply, shown = None, str(exc)
        given = set(WORD.findall(str(fields)))
        unknown = {
            word for word in WORD.findall(shown) if not self.may_know(identity, scopes, self.words.get(word))
        } - given
        assert not unknown, (name, identity, scopes, unknown, self.grouped)
        return reply

    # -- looking

    @rule(place=places, scopes=scopes)
    def look(self, place: tuple[str, str], scopes: frozenset[str]) -> None:
        for name, fields in LOOKS:
            self.call(place, scopes, name, fields)

    def teardown(self) -> None:
        if not getattr(self, "clients", None):
            return
        for client, project in itertools.product("ab", PROJECTS):
            self.look((client, project), SCOPES)
            for document in self.documents:
                self.call((client, project), SCOPES, "read_chunks", {"documentId": document})

    def may_know(self, identity: Identity, scopes: frozenset[str], of: Scope | None) -> bool:
        """True for words of scopes that the identity sees by what administrators decided."""
        if of is None:
            return False
        if not of.client_id or (of.client_id == identity.client_id and of.project_id in ("", identity.project_id)):
            return True
        if not identity.client_id:  # who hold and audit over all clients
            return Role.OPERATOR in roles_of(scopes, Scope())
        theirs = self.grouped.get((of.client_id, of.project_id), "")
        own = self.grouped.get((identity.client_id, identity.project_id), "")
        return of.client_id == identity.client_id and bool(identity.project_id) and theirs == own != ""


def _a_failure() -> Fields:
    return {"entry_type": "failure_solution", "failure_description": "it hangs", "solution_steps": ["restart it"]}


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with word_services(Settings(home=str(tmp_path / "home"))) as found:
        yield found


@pytest.mark.attack
def test_no_sequence_of_calls_shows_a_project_the_documents_of_another(
    services: System, attack_report: AttackReport
) -> None:
    attack, size = type("Attack", (Attack,), {"services": services, "words": {}}), _bounded()
    with attack_report.attack("sequences of calls by roles and projects") as found:
        found.leaks, found.tried = 1, size.max_examples
        run_state_machine_as_test(attack, settings=size)
        found.leaks = 0


def _bounded() -> Any:
    """Without shrinking, which would take minutes."""
    return settings(examples(15, share=0.0005), stateful_step_count=STEPS, phases=[Phase.generate])


def test_the_hole_of_a_projects_own_administrator_is_closed(services: System) -> None:
    """Its token may not put projects into a group, its own included, nor preview, list or remove them."""
    attack: Any = type("Attack", (Attack,), {"services": services, "words": {}})()
    attack.new_clients()
    admin, place = frozenset({"opx/admin"}), ("a", "depot")
    client = attack.clients["a"]
    for project in PROJECTS:
        fields = {"clientId": client, "projectId": project}
        assert attack.call(place, admin, "assign_project", {**fields, "groupId": "retail"}) is None
        assert attack.call(place, admin, "preview_project_move", {**fields, "groupId": "retail"}) is None
        assert attack.call(place, admin, "remove_project", fields) is None
        assert (attack.call(place, admin, "get_project", fields) is not None) == (project == "depot")
    assert attack.call(place, admin, "list_projects", {"clientId": client}) is None
    attack.teardown()
    for project in PROJECTS:
        attack.assign(("a", ""), admin, ("a", project), "retail")
    words = {word for word, scope in attack.words.items() if scope.client_id == client}
    assert words <= set(WORD.findall(json_bytes(attack.call(place, admin, "list_documents", {})).decode()))
