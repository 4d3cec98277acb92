"""Steps as readers get them: destructive by their author's words, headings without text, and code that is never closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.documents import RemarkKind
from opx.domain.procedures import Effect
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.operations.context import Caller, Context
from opx.operations.reading import DocumentPart, PartAnswer, ReadDocument, read_document
from opx.operations.system import System
from tests.support.archive_support import put, services_at

TEXT = """\
## Mitigation

### Step 1: Look at it

```sh
kubectl get pods
```

### Step 2: Restart the broker

### Step 3: Start over

**This deletes all data of the broker.**

```sh
kubectl apply -f broker.yaml
```

### Step 4: Fail over by hand (irreversible)

## Afterwards

```sh
kubectl get events

- Tell the owners that it is up.
"""


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with services_at(tmp_path) as system:
        put(system, "broker", TEXT)
        yield system


def answer(system: System, part: str) -> PartAnswer:
    client = LocalClient(Context(system, Caller(Identity(), owns_system=True)))
    return client.call(read_document, ReadDocument(document="broker", part=part))


def read(system: System, part: str) -> DocumentPart:
    return answer(system, part).record()


def test_a_step_is_as_destructive_as_its_author_declares(system: System) -> None:
    steps = read(system, "steps").steps
    assert [(step.title, step.effect) for step in steps[:4]] == [
        ("Look at it", Effect.READ),
        ("Restart the broker", Effect.UNKNOWN),
        ("Start over", Effect.DESTRUCTIVE),
        ("Fail over by hand (irreversible)", Effect.DESTRUCTIVE),
    ]
    assert [command.effect for command in steps[2].commands] == [Effect.REVERSIBLE]


def test_outlines_name_the_effect_of_a_step_without_commands(system: System) -> None:
    lines = [line.strip() for line in answer(system, "outline").text().splitlines()]
    assert "step 4: Fail over by hand (irreversible) [destructive]" in lines


def test_a_step_that_is_nothing_but_its_heading_is_read_and_has_it_once(system: System) -> None:
    part = read(system, "step 2")
    assert part.content.count("### Step 2: Restart the broker") == 1
    assert [(step.name, step.shown) for step in part.steps] == [("2", True)]
    assert read(system, "steps").content.count("Step 2: Restart the broker") == 1


def test_text_behind_code_that_is_never_closed_is_a_step_and_a_remark_names_the_line(system: System) -> None:
    assert "Tell the owners that it is up." in [step.title for step in read(system, "steps").steps]
    (document,) = system.corpus.catalog.find(read(system, "outline").document_id)
    (remark,) = [one for one in document.remarks if one.kind is RemarkKind.IRREGULAR]
    assert "the code block that begins in line 25 of its text is never closed" in remark.text
