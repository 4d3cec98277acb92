"""The home folder that commands work on, the commands, and the facts of a home that are compared afterwards."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opx.domain.scopes import Scope
from opx.operations.system import System
from opx.ports import Item, ObjectInfo, SearchFilter, SearchRequest
from opx.ports.tables import ALL_TABLES, ANNOUNCEMENTS, AUDIT, LIFECYCLE
from opx.settings import Settings
from opx_assurance.capability import assurance
from opx_assurance.consistency.differences import ReconcileReport
from tests.faults.disks import NOW, Disk
from tests.faults.mortal import starter

DAY = 86_400
A_FOLDER = ("--kind", "directory", "--category", "runbooks/procedures", "--option")
ACME = ("--client", "acme", "--project", "shop")
EXPIRED = NOW + 40 * DAY
"""A time at which one of the documents has expired."""

RULES = """groups:
- name: store
  rules:
  - alert: DiskFull
    expr: up == 0
    annotations: {runbook_url: "https://example.org/disk.md"}
"""
EVIDENCE = (
    '{"agent_type": "investigator", "outcome": "resolved", "verified": true, "problem": "The disk was full.", '
    '"solution": "Rotate the logs.", "incident": "INC-7"}'
)


@dataclass(frozen=True)
class Command:
    """A command line that writes. `again` is true if it may be repeated without another effect."""

    name: str
    line: tuple[str, ...]
    clock: float = NOW
    stdin: str = ""
    again: bool = True
    prepare: Callable[[Path], object] = lambda _: None
    done: Callable[[Path], bool] = lambda _: False
    """True if it can't be repeated, as its file is there."""


def without_index(home: Path) -> None:
    shutil.rmtree(home / "index")


def is_exported(home: Path) -> bool:
    """True if the archive is there, which is whole then."""
    archive = home / "copy.zip"
    if not archive.exists():
        return False
    with zipfile.ZipFile(archive) as file:
        assert file.testzip() is None
    return True


def empty(home: Path) -> None:
    shutil.rmtree(home)


NEW_NAMES = Command("ingest new names", ("ingest", "{files}/names"))
"""Its document declares names that earlier documents use."""

COMMANDS = (
    Command("ingest", ("ingest", "{files}/new", "--mirror", "--force")),
    NEW_NAMES,
    Command("ingest for a client", (*ACME, "ingest", "{files}/shop")),
    Command("delete", ("delete", "--yes", "{d1}")),
    Command("restore", ("restore", "{d2}", "--version", "1"), again=False),
    Command("outcome", ("outcome", "record", "{receipt}", "1", "resolved", "--occurrence", "once")),
    Command(
        "capture", (*ACME, "learn", "capture", "failure", "the queue hangs", "--step", "drain it", "--occurrence", "o1")
    ),
    Command("verify", (*ACME, "learn", "verify", "{entry}", "--worked", "--incident", "INC-1")),
    Command("checkpoint", (*ACME, "learn", "checkpoint", "shop", "--type", "project_completion")),
    Command("prune", ("prune", "--allow-share", "1"), clock=EXPIRED),
    Command("hold", ("hold", "add", "--document", "{d3}", "--reason", "Case 7"), again=False),
    Command("lift a hold", ("hold", "remove", "{hold}"), again=False),
    Command("reindex", ("reindex",), again=False),
    Command("rebuild", ("rebuild",), prepare=without_index),
    Command("reconcile", ("reconcile", "--repair", "--thorough"), prepare=without_index),
    Command("export", ("export", "{home}/copy.zip"), done=is_exported),
    Command("import", ("import", "{files}/archive.zip"), prepare=empty, again=False),
    Command("merge an archive", ("import", "--merge", "{files}/archive.zip")),
    Command("remove a client", ("client", "remove", "acme", "--yes")),
    Command("assign a project", ("project", "assign", "acme", "shop", "payments")),
    Command("alias", ("graph", "alias", "add", "service:cart", "service:checkout"), again=False),
    Command("merge nodes", ("graph", "alias", "merge", "service:basket", "service:checkout"), again=False),
    Command("relink", ("graph", "relink")),
    Command("baseline", ("baseline", "push", "--file", "{files}/values.csv")),
    Command(
        "add a source",
        (
            "source",
            "add",
            "more",
            "--kind",
            "directory",
            "--category",
            "runbooks/procedures",
            "--option",
            "path={files}/new",
        ),
    ),
    Command("pull a source", ("source", "pull", "notes")),
    Command("secret", ("secret", "set", "another"), stdin="a value of it"),
    Command("alert rules", ("alerts", "import", "{files}/rules.yaml")),
    Command("evidence", ("evidence", "{files}/evidence.json"), again=False),
    Command("close a gap", ("gaps", "close", "{gap}", "--because", "known"), again=False),
    Command("search", ("search", "page about thing2"), again=False),
    Command("run once", ("run", "--once"), clock=NOW + DAY),
)


@dataclass
class Template:
    """A home in which something of everything is kept, the files that commands read, and the ids in it."""

    folder: Path
    ids: dict[str, str] = field(default_factory=dict)

    def copy(self, to: Path, command: Command) -> Path:
        """A home of its own for a command, in a folder of this name."""
        shutil.copytree(self.folder / "home", to)
        command.prepare(to)
        return to

    def line(self, command: Command, home: Path) -> list[str]:
        values = {**self.ids, "files": str(self.folder / "files"), "home": str(home)}
        return [part.format(**values) for part in command.line]


def a_template(folder: Path, disk: Disk) -> Template:
    files, home = folder / "files", folder / "home"
    _write_files(files)
    old = str(files / "old")
    disk.warm(folder / "warm", [["ingest", old], ["search", "page 1"], ["reconcile"], ["reindex"], ["status"]])
    (files / "old" / "d2.md").write_text("# Page 2\n\nAn earlier version of it.\n")
    outputs = [
        _done(disk, home, line)
        for line in (
            ["ingest", old],
            [*ACME, "ingest", str(files / "client")],
            ["search", "what to do about thing1"],
            ["search", "the zebra of another planet"],
            [*ACME, "learn", "capture", "failure", "deploy hangs", "--step", "raise the timeout", "--verified"],
            [*ACME, "learn", "capture", "failure", "pump stuck", "--step", "open the valve"],
            ["hold", "add", "--category", "postmortems", "--reason", "Audit"],
            [
                "source",
                "add",
                "notes",
                "--kind",
                "directory",
                "--category",
                "runbooks/procedures",
                "--option",
                f"path={files / 'notes'}",
            ],
        )
    ]
    (files / "old" / "d2.md").write_text(_page(2))
    _done(disk, home, ["ingest", old])
    _done(disk, home, ["secret", "set", "token"], stdin="a secret value")
    _done(disk, home, ["export", str(files / "archive.zip")])
    with opened(home) as system:
        ids = _ids(system)
    ids |= {"receipt": "last", "entry": re.findall(r"^[0-9a-f]{32}$", outputs[5], re.MULTILINE)[0]}
    return Template(folder, ids)


def _done(disk: Disk, home: Path, line: list[str], stdin: str = "") -> str:
    ended = disk.run(home, [line], stdin=stdin)
    assert ended.exit == 0 or line[0] == "search", f"{line}: {ended}"
    return ended.output


def _page(number: int) -> str:
    return f"# Page {number}\n\nWhat to do about thing{number}: see service:checkout.\n\n1. Restart thing{number}\n"


def _write_files(files: Path) -> None:
    for name in ("old", "new", "names", "client", "shop", "notes"):
        (files / name).mkdir(parents=True)
    for number in range(6):
        (files / "old" / f"d{number}.md").write_text(_page(number))
    (files / "old" / "d4.md").write_text(f"---\nservices: [checkout, basket]\n---\n{_page(4)}")
    (files / "old" / "d5.md").write_text(f"---\nexpires: 2026-10-01\n---\n{_page(5)}")
    for number in range(10, 14):
        (files / "new" / f"d{number}.md").write_text(_page(number))
    (files / "names" / "list.md").write_text(
        "---\nservices: [thing1, thing2]\n---\n# List\n\nThe services thing1 and thing2.\n"
    )
    (files / "client" / "own.md").write_text("# Own\n\nThe shop of acme is restarted by hand.\n")
    (files / "shop" / "more.md").write_text("# More\n\nThe cart of acme has a cache.\n")
    (files / "notes" / "note.md").write_text("# Note\n\nA note that is pulled.\n")
    (files / "rules.yaml").write_text(RULES)
    (files / "evidence.json").write_text(EVIDENCE)
    rows = "".join(f"web-01,cpu,{40 + at},2026-09-{at + 1:02}T00:00:00Z,percent\n" for at in range(9))
    (files / "values.csv").write_text(f"node,metric,value,at,unit\n{rows}")


def _ids(system: System) -> dict[str, str]:
    documents = {
        Path(one.key.source).stem: one.document_id
        for one in system.corpus.catalog.in_category("runbooks/procedures")
        if one.scope == Scope()
    }
    (gap,) = system.records.gaps.gaps("global")
    (hold,) = system.lifecycle.holds.in_force()
    return {**documents, "gap": gap.gap_id, "hold": hold.id}


def opened(home: Path, clock: float = NOW) -> System:
    return starter(clock)(Settings(home=str(home), retry_base_seconds=0.0))


# -- facts

IGNORED = frozenset({AUDIT.name, ANNOUNCEMENTS.name, LIFECYCLE.name})
"""Tables that record each attempt: a repeated command may leave another item."""


def facts(home: Path, clock: float = NOW) -> dict[str, Any]:
    """Counts of everything in the home, and the objects with their contents."""
    with opened(home, clock) as system:
        items = {spec.name: sum(map(_counts, system.tables.every_item(spec))) for spec in ALL_TABLES}
        scopes = tuple({one.scope.key for one in _documents(system)} | {Scope().key})
        return {
            "objects": dict(map(_content, system.store.list("documents/"))),
            "objects of clients": dict(map(_content, system.store.list("clients/"))),
            "chunk files": sum(1 for _ in system.store.list("chunks/")),
            "items": {name: count for name, count in items.items() if name not in IGNORED},
            "indexed": system.index.count(SearchFilter(scopes=scopes)),
            "found by words": len(system.index.search(_pages_in(scopes)).lexical.hits),
            "waiting": system.queue.waiting(),
            "secrets": system.ports.secrets.names(),  # type: ignore[attr-defined]
        }


def _pages_in(scopes: tuple[str, ...]) -> SearchRequest:
    return SearchRequest(SearchFilter(scopes=scopes), text="page", depth=100)


def _counts(item: Item) -> bool:
    """False for a lock: a killed process leaves it to the next one."""
    return not str(item.get("place", "")).endswith("|lock")


def _content(info: ObjectInfo) -> tuple[str, str]:
    return info.key, info.etag


def _documents(system: System) -> list[Any]:
    catalog = system.corpus.catalog
    return [one for name in system.installation.knowledge.categories for one in catalog.in_category(name)]


def differences(home: Path, clock: float = NOW) -> ReconcileReport:
    with opened(home, clock) as system:
        return system.part(assurance).reconciler().run()


def compared(wanted: Any, found: Any, name: str = "") -> Counter[str]:
    """Differences of two facts: lost, doubled and changed things, with their numbers."""
    if isinstance(wanted, dict):
        different: Counter[str] = Counter()
        for key in wanted.keys() | found.keys():
            different += compared(wanted.get(key, 0), found.get(key, 0), f"{name} {key}".strip())
        return different
    if wanted == found:
        return Counter()
    if isinstance(wanted, int) and isinstance(found, int):
        return Counter({f"{'lost' if found < wanted else 'doubled'} {name}": abs(wanted - found)})
    return Counter({f"{'lost' if not found else 'doubled' if not wanted else 'changed'} {name}": 1})
