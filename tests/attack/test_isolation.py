"""Random calls of all operations that read, by callers of any client, project and role: nothing of others is in a reply.

Each scope has documents, entries and questions with a word of its own. Unlike `tests/isolation`, which compares replies with
those of a system that holds nothing of others, this searches replies for words of others, and so tries many more calls.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from opx.domain.scopes import Identity, Scope
from opx.operations.context import Caller
from tests.attack.fuzzing import HangError, watchdog
from tests.attack.mutations import mutated_json
from tests.contract.operation_edges import World, id_of, local, opened, put
from tests.contract.operation_examples import EXAMPLES, REGISTRY, a_failure, done
from tests.support.attacks import Attack, AttackReport, cases

CLIENTS = ("acme", "bolt", "coil")
GROUPS: Mapping[tuple[str, str], str] = {(client, one): "retail" for client in CLIENTS for one in ("shop", "store")}
PROJECTS = ("shop", "store", "depot")
ROLES = (None, frozenset({"opx/read"}), frozenset({"opx/read", "opx/write"}), frozenset({"opx/admin"}))
AGENTS = ("", "orchestrator", "investigator")
READS = ("get_", "list_", "find_", "query", "read_", "search", "diff_", "explain_", "research")
NAMES = tuple(name for name in EXAMPLES if name.startswith(READS))

SLOW = ("research", "research_topic", "search_runbooks", "find_procedure")
"""Operations that search several times: they are called less often."""

PARTS = 4
"""Tests that the calls are spread over."""

SHARED = (
    "# Restart {word}\n\nRestart the pump when the disk of {word} is full.\n\nservice:{word}|DEPENDS_ON|service:db\n"
)


def word_of(scope: Scope) -> str:
    """The word that only this scope has."""
    parts = (scope.client_id or "all", scope.group_id or "", scope.project_id or "")
    return "canary" + "x".join(part or "none" for part in parts) + "word"


def scopes() -> Iterator[Scope]:
    yield Scope()
    for client in CLIENTS:
        yield Scope(client)
        yield Scope(client, group_id="retail")
        yield from (Scope(client, project_id=project) for project in PROJECTS)


@dataclass
class Held:
    """A system in which each scope holds something, and the ids of all of it."""

    world: World
    ids: dict[str, list[str]]

    @cached_property
    def all_ids(self) -> list[str]:
        return [one for some in self.ids.values() for one in some]


@contextmanager
def held(folder: Path) -> Iterator[Held]:
    with opened(folder / "home") as world:
        ids: dict[str, list[str]] = {"document": [], "entry": [], "receipt": [], "key": []}
        for client, project in GROUPS:
            world.services.corpus.projects.assign(client, project, GROUPS[client, project])
        for scope in scopes():
            ids["key"].append(put(world.services, scope, "runbooks/pump.md", SHARED.format(word=word_of(scope))))
        list(world.services.manager.work())
        ids["document"] = [id_of(world.services, key) for key in ids["key"]]
        for scope in (one for one in scopes() if one.project_id):
            own = replace_caller(world, Caller(Identity(scope.client_id, scope.project_id, "orchestrator")))
            word = word_of(Scope(scope.client_id))  # what is learnt from entries is for all projects of the client
            failure = a_failure(failure_description=f"{word} stops", solution_steps=[f"restart {word}"])
            ids["entry"].append(done(own, "capture_entry", **{**failure, "success_verified": True})["id"])
            found = done(own, "query", query="restart the pump", config={"minConfidence": 0}, receipt=True)
            ids["receipt"].append(found["receiptId"])
            done(own, "query", query=f"zebras of {word_of(scope)}")
            done(own, "process_checkpoint")
        list(world.services.manager.work())
        yield Held(world, ids)


def replace_caller(world: World, caller: Caller) -> World:
    return World(world.services, world.ids, caller)


def foreign_words(identity: Identity) -> set[str]:
    """Words that this caller may not read, whatever its role: those of other clients, of groups that its project is not in,
    and of projects that share no group with its own."""
    client, project = identity.client_id, identity.project_id
    group = GROUPS.get((client, project), "")
    return {word_of(scope) for scope in scopes() if not _is_open(scope, client, project, group)}


def _is_open(scope: Scope, client: str, project: str, group: str) -> bool:
    if not scope.client_id:
        return True
    if scope.client_id != client:
        return False
    if not project or not (scope.group_id or scope.project_id):
        return True
    if scope.group_id:
        return scope.group_id == group
    return scope.project_id == project or (bool(group) and GROUPS.get((client, scope.project_id)) == group)


def any_caller(chance: random.Random) -> Caller:
    """A caller with a client: one without any is an operator."""
    client, project = chance.choice(CLIENTS), chance.choice((*PROJECTS, *PROJECTS, "other", ""))
    agent = chance.choice(AGENTS)
    return Caller(Identity(client, project, agent or "ana"), token_scopes=chance.choice(ROLES), agent=agent)


def any_request(holding: Held, chance: random.Random) -> tuple[str, Any]:
    name = chance.choice(NAMES)
    if name in SLOW and chance.random() < 0.9:
        name = chance.choice(NAMES)
    fields = dict(holding_example(holding, name, chance))
    return name, mutated_json(fields, chance) if fields and chance.random() < 0.2 else fields


def holding_example(holding: Held, name: str, chance: random.Random) -> Any:
    """The example of an operation with an id of any scope wherever it has an id, and questions that concern all scopes."""

    class AnyIds(dict[str, str]):
        def __missing__(self, _key: str) -> str:
            return chance.choice(holding.all_ids)

    fields = EXAMPLES[name](World(holding.world.services, AnyIds()))
    if "query" in fields:
        fields = {**fields, "query": chance.choice(("restart the pump", "disk full", "stops", "zebras"))}
    if "ref" in fields:
        fields = {**fields, "ref": chance.choice(("service:db", "service:pump"))}
    return fields


def attack(holding: Held, number: int, found: Attack) -> None:
    chance = random.Random(f"isolation {number}")
    caller = any_caller(chance)
    name, fields = any_request(holding, chance)
    operation = REGISTRY.get(name)
    assert operation is not None
    foreign = foreign_words(caller.identity)
    try:
        with watchdog():
            reply = local(replace_caller(holding.world, caller), operation, fields if isinstance(fields, dict) else {})
    except HangError:
        found.hangs += 1
        found.examples.append(f"{number}: {name} {fields} hangs")
        return
    shown = json.dumps([reply.data, reply.text, reply.message], default=str)
    leaked = sorted(word for word in foreign if word in shown and word not in json.dumps(fields, default=str))
    found.leaks += bool(leaked)
    found.crashes += reply.code == "internal"
    if leaked or reply.code == "internal":
        found.examples.append(f"{number}: {caller} {name} {fields}: {leaked or reply.message}")


@pytest.mark.attack
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_of_others_is_in_any_reply(
    tmp_path: Path, attack_report: AttackReport, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)
    logging.disable(logging.CRITICAL)
    try:
        with held(tmp_path) as holding, attack_report.attack("isolation") as found:
            for number in range(part, cases(800), PARTS):
                attack(holding, number, found)
                found.tried += 1
    finally:
        logging.disable(logging.NOTSET)
    assert found.examples[:5] == []


def test_words_of_others_are_found(tmp_path: Path) -> None:
    """The attack sees a leak: the words of a project are in a reply to itself."""
    with held(tmp_path) as holding:
        own = replace_caller(holding.world, Caller(Identity("acme", "depot", "ana")))
        operation = REGISTRY.get("query")
        assert operation is not None
        reply = local(own, operation, {"query": "restart the pump", "config": {"minConfidence": 0}})
        shown = json.dumps(reply.data)
        assert word_of(Scope("acme", project_id="depot")) in shown
        assert word_of(Scope("acme", project_id="depot")) in foreign_words(Identity("acme", "shop"))
        assert word_of(Scope("acme", project_id="shop")) not in foreign_words(Identity("acme", "store"))
