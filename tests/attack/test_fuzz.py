"""Inputs that are mutated at random, for everything that reads inputs of others. `make attack` tries 100,000 of them."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx_assurance.capability import assurance
from tests.attack.fuzzing import HangError, Target, fuzz, watchdog
from tests.attack.mutations import mutated, mutated_json
from tests.attack.targets import (
    FRONT_MATTER,
    a_world,
    archive_target,
    document_targets,
    operation_target,
    webhook_target,
)
from tests.support.attacks import Attack, AttackReport, cases
from tests.support.fakes import WordsEmbedder
from tests.support.webhook_support import webhooks_in

COUNT = cases(1500)


@pytest.fixture(autouse=True)
def quiet_and_quick() -> Iterator[None]:
    """Refusals aren't logged, and files don't wait for the disk."""
    logging.disable(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
    logging.disable(logging.NOTSET)


def tried(target: Target, report: AttackReport, kind: str) -> list[str]:
    """Inputs that ended badly."""
    with report.attack(f"fuzz: {kind}") as found:
        fuzz(target, max(1, round(COUNT * target.share)), found)
    return found.examples


@pytest.mark.attack
@pytest.mark.timeout(600)
def test_documents_are_read_or_refused(tmp_path: Path, attack_report: AttackReport) -> None:
    bad: list[str] = []
    for target in document_targets(tmp_path):
        bad += tried(target, attack_report, "parsers" if target.name.startswith("parser") else target.name)
    assert bad == []


@pytest.mark.attack
@pytest.mark.timeout(600)
def test_deliveries_are_accepted_or_refused(tmp_path: Path, attack_report: AttackReport) -> None:
    webhooks = webhooks_in(tmp_path, embedder=WordsEmbedder())
    assert tried(webhook_target(webhooks), attack_report, "webhooks") == []
    webhooks.services.close()


@pytest.mark.attack
@pytest.mark.timeout(600)
def test_requests_are_answered_or_refused(tmp_path: Path, attack_report: AttackReport) -> None:
    with a_world(tmp_path) as world:
        assert tried(operation_target(world), attack_report, "operations") == []


@pytest.mark.attack
@pytest.mark.timeout(600)
def test_changed_archives_are_refused(tmp_path: Path, attack_report: AttackReport) -> None:
    with a_world(tmp_path) as world:
        importer = world.services.part(assurance).importer()
        archive = Path(world.ids["archive"])
        target = archive_target(archive, tmp_path, lambda path: importer.run(path, merge=True, dry_run=True))
        assert tried(target, attack_report, "archives") == []


# -- the harness itself


def test_errors_leaks_and_hangs_are_found() -> None:
    def attack(number: int) -> str:
        if number == 1:
            raise KeyError("state")
        if number == 2:
            with watchdog(0.05):
                time.sleep(5)
        return "told" if number == 3 else ""

    numbers = iter(range(5))
    found = Attack("a test")
    fuzz(Target("a test", lambda _: next(numbers), attack, 1.0), 5, found)
    assert (found.tried, found.crashes, found.hangs, found.leaks) == (5, 1, 1, 1)
    assert len(found.examples) == 3


def test_watchdog_is_no_error_that_code_may_catch() -> None:
    def work() -> None:
        try:
            time.sleep(5)
        except Exception:  # noqa: BLE001 - as the code under test may do
            pytest.fail("it was caught")

    with watchdog(0.05), pytest.raises(HangError):
        work()


def test_mutations_are_those_of_their_seed() -> None:
    first, again, other = (mutated((FRONT_MATTER,), random.Random(seed)) for seed in (1, 1, 2))
    assert first == again != other
    values = [mutated_json({"a": [1, {"b": "c"}]}, random.Random(seed)) for seed in (1, 1)]
    assert repr(values[0]) == repr(values[1])
