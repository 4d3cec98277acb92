"""Mentions of nodes: by the shape of identifiers, and by names that earlier or later documents declare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.graph import Node, Relinked, Statements
from opx.domain.scopes import Scope, scope_of_object
from opx.errors import IndexUnavailableError
from opx.graph.extraction.mentions import Dictionary, KnownNames, scopes_that_name
from opx.graph.relink_queue import WaitingNames
from opx.ingestion.chunking import ChunkOwner
from opx.ingestion.events import ObjectEvent
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_testing.fake_time import FakeTime
from tests.support.extraction_support import Extraction
from tests.support.fakes import WordsEmbedder
from tests.support.parsing_support import chunk_document


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("mentions"))


# -- identifiers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("patch CVE-2024-3094 now", {"cve:cve-2024-3094"}),
        ("CVE-2024-3094, CVE-2024-3095.", {"cve:cve-2024-3094", "cve:cve-2024-3095"}),
        ("see T1059 and T1059.001", {"technique:t1059", "technique:t1059.001"}),
        ("(OPS-12) [AB1-7]", {"jira:ops-12", "jira:ab1-7"}),
        ("SHA-256 UTF-8 RFC-9110 TLS-1 GPT-4 ISO-8859 HTTP-502", set()),
        ("x-OPS-12 OPS-12-b OPS-0 ops-12 A-1 /OPS-12 OPS-12.5", set()),
        ("T4000 XT1059 T1059.5 CVE-24-1", set()),
    ],
)
def test_identifiers_are_recognised_by_their_shape(extraction: Extraction, text: str, found: set[str]) -> None:
    extracted = extraction.extract(f"# Page\n\n{text}\n")
    assert {one.target for one in extracted.statements.edges} == found
    assert all(one.rule == "pattern" for one in extracted.statements.edges)


def test_a_mention_is_left_out_beside_a_more_specific_edge(extraction: Extraction) -> None:
    extracted = extraction.extract("---\nfixes: OPS-12\n---\n# Page\n\nOPS-12 and OPS-13\n")
    assert {(one.edge_type, one.target) for one in extracted.statements.edges} == {
        ("fixes", "jira:ops-12"),
        ("mentions", "jira:ops-13"),
    }


def test_metadata_of_internal_documents_only_declares_nodes(extraction: Extraction) -> None:
    text = "---\nservices: [orders]\nentity: service:shop\nhosts: [erp-db-01]\n---\n# Page\n\ntext\n"
    internal = extraction.extract(text)
    external = extraction.extract(text, category="security/cve")
    assert internal.document.tier is not external.document.tier
    for key in ("service:orders", "host:erp-db-01"):
        assert internal.node(key).declared
        assert not any(one.declared for one in external.statements.nodes if one.key == key)


# -- names


def names(*keys: str) -> Dictionary:
    dictionary = Dictionary()
    dictionary.add(keys)
    return dictionary


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("service:orders", "restart `orders` first"),
        ("service:orders", "the orders service is down"),
        ("service:orders", "the **orders** pods crash"),
        ("service:orders", "service: orders"),
        ("service:orders", "app=orders"),
        ("service:orders", "kubectl rollout restart deployment/orders"),
        ("service:orders", "page System `orders` now"),
        ("service:checkout-api", "when Checkout-API fails."),
        ("service:order history", "the Order\nHistory is slow"),
        ("host:web-01", "on web-01, http://web-01:8080/x"),
        ("alert:kubepodcrashlooping", "KubePodCrashLooping fires"),
        ("alert:instancedown", "when InstanceDown fires"),
        ("alert:watchdog", "the Watchdog alert"),
        ("product:redis", "we run Redis there"),
        ("product:nginx", "upgrade nginx 1.25 soon"),
        ("product:fortinet/fortios", "old FortiOS boxes"),
        ("product:fortinet/fortios", "fortinet/fortios is old"),
        ("team:platform-sre", "page platform-sre"),
        ("class:user", "see `User`"),
    ],
)
def test_a_name_counts_where_the_text_shows_that_it_is_a_name(key: str, text: str) -> None:
    assert names(key).found_in(text) == [key]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("service:orders", "customers place orders, and orders are paid"),
        ("service:orders", "Orders are placed"),
        ("service:orders", "this service orders parts"),
        ("service:search", "search the logs for service errors"),
        ("service:orders", "GET /api/orders/12"),
        ("service:orders", "`orders-db` and `orders.events` and --orders"),
        ("service:orders", "$orders service"),
        ("service:web", "the web-01 service"),
        ("host:web-01", "web-01.example.org and web-011 and my-web-01"),
        ("service:order history", "an order. History is full"),
        ("alert:watchdog", "a watchdog restarts it"),
        ("product:redis", "Redis. Redis | redis"),
        ("product:go", "Go to step 6. Go on"),
        ("class:user", "the User logs in"),
        ("class:userservice", "the UserService logs in"),
    ],
)
def test_an_ordinary_word_does_not_count(key: str, text: str) -> None:
    assert names(key).found_in(text) == []


def test_mentions_do_not_depend_on_the_number_of_names() -> None:
    many = names("service:checkout-api", *(f"host:node-{n}" for n in range(10_000)))
    assert many.found_in("checkout-api on node-77, node-9999 and node-10000") == [
        "service:checkout-api",
        "host:node-77",
        "host:node-9999",
    ]


class Nodes:
    """A store with these names by scope."""

    def __init__(self, **declared: list[str]) -> None:
        self.declared = declared
        self.calls = 0

    def of_type(
        self, scopes: Sequence[str], node_type: str, /, *, limit: int = 1_000, declared: bool = False
    ) -> list[Node]:
        assert declared
        self.calls += 1
        keys = (key for scope in scopes for key in self.declared.get(scope.removeprefix("client:"), ()))
        return [Node(key, node_type, declared=True) for key in keys if key.startswith(node_type)][:limit]


def test_names_are_those_visible_to_the_scope_of_the_document() -> None:
    known = KnownNames(Nodes(**{"global": ["host:g-1"], "acme": ["host:a-1"], "acme/project:p": ["host:p-1"]}))
    text = "g-1 a-1 p-1"
    assert known.dictionary(Scope()).found_in(text) == ["host:g-1"]
    assert known.dictionary(Scope("acme")).found_in(text) == ["host:g-1", "host:a-1"]
    assert known.dictionary(Scope("acme", project_id="p")).found_in(text) == ["host:g-1", "host:a-1", "host:p-1"]
    assert known.dictionary(Scope("other")).found_in(text) == ["host:g-1"]


def test_names_of_a_group_are_not_those_of_its_projects() -> None:
    assert scopes_that_name(Scope("acme", project_id="p")) == ("global", "client:acme", "client:acme/project:p")


def test_aliases_are_names() -> None:
    known = KnownNames(Nodes(), lambda _: ["service:checkout-svc", "user:jane"])
    assert known.dictionary(Scope()).found_in("checkout-svc by jane") == ["service:checkout-svc"]


def test_names_are_read_once_a_minute() -> None:
    time, nodes = FakeTime(), Nodes(**{"global": ["host:g-1"]})
    known = KnownNames(nodes, clock=time.clock)
    known.dictionary(Scope())
    before = nodes.calls
    known.dictionary(Scope())
    assert nodes.calls == before
    nodes.declared["global"].append("host:g-2")
    time.now += 61
    assert known.dictionary(Scope()).found_in("g-2") == ["host:g-2"]


def test_names_that_this_process_declares_are_known_at_once_in_their_scope() -> None:
    known = KnownNames(Nodes(**{"global": ["host:g-1"]}))
    for scope in (Scope(), Scope("acme"), Scope("acme", project_id="p"), Scope("other")):
        known.dictionary(scope)
    assert known.unknown(Scope("acme"), ["host:g-1", "host:a-2"]) == ["host:a-2"]
    known.declare(Scope("acme"), ["host:a-2"])
    assert known.unknown(Scope("acme"), ["host:a-2"]) == []
    assert known.dictionary(Scope("acme", project_id="p")).found_in("a-2") == ["host:a-2"]
    assert known.dictionary(Scope("other")).found_in("a-2") == []
    assert known.dictionary(Scope()).found_in("a-2") == []


# -- declared before or after

INVENTORY, OUTAGE, QUIET = (
    "documents/architecture/shop.md",
    "projects/p/documents/postmortems/outage.md",
    "documents/runbooks/quiet.md",
)
TEXTS = {
    INVENTORY: "---\nservices: [orders]\nentity: service:shop\nhosts: [erp-db-01]\n---\n# Shop\n\nSold by erp-db-01.\n",
    OUTAGE: "# Outage\n\nThe orders service lost erp-db-01, said `orders`.\n",
    QUIET: "# Quiet\n\nCustomers place orders.\n",
}
FOUND = {(OUTAGE, "host:erp-db-01"), (OUTAGE, "service:orders")}


@dataclass(frozen=True)
class Client:
    """A client of the system with documents of its own, so that tests are independent."""

    services: System
    name: str

    def key(self, source: str) -> str:
        return f"clients/{self.name}/{source}"

    def document_key(self, source: str) -> DocumentKey:
        return DocumentKey(*scope_of_object(self.key(source)))

    def ingest(self, *sources: str, text: str = "") -> None:
        for source in sources:
            self.services.store.put(self.key(source), (text or TEXTS[source]).encode())
        outcomes = list(self.services.manager.work())
        assert {outcome.result.value for outcome in outcomes} == {"ingested"}

    def statements(self) -> dict[str, Statements]:
        return {source: self.services.graph.store.statements_of(self.document_key(source).id) for source in TEXTS}

    def found(self) -> set[tuple[str, str]]:
        """Mentions found in text, by document."""
        stated = self.statements().items()
        return {
            (source, edge.target)
            for source, one in stated
            for edge in one.edges
            if edge.edge_type == "mentions" and source != INVENTORY
        }

    def evidence(self) -> set[tuple[str, ...]]:
        """All statements with their evidence; chunk ids depend on the texts alone."""
        edges = {
            (one.source, one.edge_type, one.target, *one.chunk_ids)
            for each in self.statements().values()
            for one in each.edges
        }
        return edges | {(one.key, *sorted(one.chunk_ids)) for each in self.statements().values() for one in each.nodes}

    def linked(self, *keys: str) -> Relinked:
        row = WaitingNames(f"client:{self.name}", f"client:{self.name}|x#1", keys, since=0.0, token="t")
        return self.services.relinking.relinker.relink([row])


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    home = tmp_path_factory.mktemp("system")
    with bootstrap(Settings(home=str(home)), embedder=WordsEmbedder()) as made:
        yield made


@pytest.fixture
def client(services: System) -> Client:
    return Client(services, f"c{uuid4().hex[:8]}")


def test_the_order_of_documents_makes_no_difference(services: System) -> None:
    first, second, together = (Client(services, name) for name in ("first", "second", "together"))
    first.ingest(INVENTORY)
    first.ingest(OUTAGE)
    second.ingest(OUTAGE)
    assert second.found() == set()
    second.ingest(INVENTORY)
    together.ingest(OUTAGE, INVENTORY)
    assert first.found() == second.found() == together.found() == FOUND
    assert first.evidence() == second.evidence() == together.evidence()


def test_names_of_a_client_are_not_searched_in_documents_of_others(services: System, client: Client) -> None:
    other = Client(services, "other")
    other.ingest(OUTAGE)
    services.store.put(OUTAGE.removeprefix("projects/p/"), TEXTS[OUTAGE].encode())
    client.ingest(OUTAGE, QUIET, INVENTORY)
    services.relinking.relink()
    everybody_s = DocumentKey(Scope(), OUTAGE.removeprefix("projects/p/"))
    assert client.found() == FOUND
    assert other.found() == set()
    assert services.graph.store.statements_of(everybody_s.id).edges == ()


def test_global_names_are_searched_in_documents_of_all_clients(services: System, client: Client) -> None:
    client.ingest(OUTAGE, text="# Outage\n\nLost gw-77 there.\n")
    source = "documents/architecture/gateways.md"
    services.store.put(source, b"---\nentity: service:gateway\nhosts: [gw-77]\n---\n# Gateways\n\ntext\n")
    list(services.manager.work())
    assert client.found() == {(OUTAGE, "host:gw-77")}


def in_two_passages(name: str) -> str:
    """A long page with a name where two passages overlap."""
    lines = [f"Then step {n} of the long night began for all of us." for n in range(120)]
    owner = ChunkOwner("d", "Outage", "postmortems")
    for at in range(len(lines)):
        text = "# Outage\n\n" + "\n".join([*lines[:at], f"It was {name}.", *lines[at:]])
        chunks = chunk_document(text.splitlines(keepends=True), owner)
        if sum(name in chunk.content for chunk in chunks) == 2:
            return text
    raise AssertionError("no place lies in two passages: the test shows nothing")


def test_overlapping_passages_are_the_same_evidence_before_and_after(services: System) -> None:
    text = in_two_passages("erp-db-01")
    before, after = Client(services, "before"), Client(services, "after")
    before.ingest(OUTAGE, text=text)
    before.ingest(INVENTORY)
    after.ingest(INVENTORY)
    after.ingest(OUTAGE, text=text)
    assert before.found() == {(OUTAGE, "host:erp-db-01")}
    assert before.evidence() == after.evidence()


def test_a_mention_begins_at_the_own_node_of_the_document(client: Client) -> None:
    client.ingest(QUIET, text="---\nentity: service:front\n---\n# Front\n\nIt stands beside erp-db-01.\n")
    client.ingest(INVENTORY)
    [edge] = client.statements()[QUIET].edges
    assert (edge.source, edge.edge_type, edge.target) == ("service:front", "mentions", "host:erp-db-01")


def test_pages_document_classes_that_code_defines_later(client: Client) -> None:
    client.ingest(QUIET, text="# Quiet\n\nSee `Ledger`, not the Ledger.\n")
    client.ingest("documents/code/ledger.py", text="class Ledger:\n    def add(self):\n        pass\n")
    [edge] = client.statements()[QUIET].edges
    assert (edge.source, edge.edge_type, edge.target) == ("runbook:quiet", "documents", "class:ledger")
    assert client.linked("class:ledger").mentions == 0


def test_linking_again_adds_nothing(client: Client) -> None:
    client.ingest(*TEXTS)
    before = client.evidence()
    again = client.linked("service:orders", "host:erp-db-01")
    assert (again.names, again.documents, again.mentions, again.busy, again.left_out) == (2, 0, 0, 0, ())
    assert client.evidence() == before


def test_the_next_batch_completes_what_one_left_out(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client.ingest(OUTAGE)
    with monkeypatch.context() as patch:
        patch.setattr(client.services.relinking.relinker, "seconds", 45.0)
        patch.setattr("opx.graph.relinking.NAMES_A_BATCH", 1)
        patch.setattr("opx.graph.relink_queue.NAMES_A_ROW", 1)
        client.ingest(INVENTORY)
    assert client.found() < FOUND
    assert "2 of 3 new names" in caplog.text
    assert list(client.services.manager.work()) == []
    assert client.found() == FOUND


def test_without_a_daily_run_no_new_name_is_left_out(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.ingest(OUTAGE)
    monkeypatch.setattr("opx.graph.relinking.NAMES_A_BATCH", 1)
    client.ingest(INVENTORY)
    assert client.found() == FOUND


def test_a_run_ends_at_its_time_limit(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.ingest(*TEXTS)
    time = FakeTime()

    def slow(*_: object) -> tuple[()]:
        time.sleep(10)
        return ()

    monkeypatch.setattr(client.services.relinking.relinker, "clock", time.clock)
    monkeypatch.setattr(client.services.relinking.relinker, "_passages_with", slow)
    monkeypatch.setattr("opx.graph.relinking.NAMES_A_BATCH", 1)
    done = client.services.relinking.relinker.relink_all(seconds=15)
    assert done.names == 2
    assert "names" in done.left_out[0]


def test_passages_beyond_the_limit_are_reported(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.ingest(*TEXTS)
    monkeypatch.setattr("opx.graph.relinking.HITS_A_NAME", 1)
    monkeypatch.setattr("opx.graph.relinking.DOCUMENTS_A_RUN", 0)
    assert client.linked("service:orders").left_out == (
        f"passages beyond the first 1 with a service of client:{client.name}",
        "1 of 1 documents",
    )


def test_an_unavailable_index_fails_no_batch(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(_: object) -> None:
        raise IndexUnavailableError("away")

    client.ingest(OUTAGE)
    with monkeypatch.context() as patch:
        patch.setattr(client.services.index, "search", away)
        client.ingest(INVENTORY)
    assert "stay queued, to be searched by a later run: away" in caplog.text
    assert client.found() == set()
    assert list(client.services.manager.work()) == []
    assert client.found() == FOUND


def test_a_document_that_another_worker_claims_is_left_out(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.ingest(OUTAGE)
    catalog = client.services.corpus.catalog
    with monkeypatch.context() as patch:
        patch.setattr(catalog.claims, "_lease_seconds", 900)
        event = ObjectEvent(client.key(OUTAGE), deleted=False, sequencer="")
        held = catalog.claim(client.document_key(OUTAGE), event)
        assert client.linked("service:orders").busy == 1
        assert client.found() == set()
        catalog.claims.release(held, applied=False)
    assert client.linked("service:orders").documents == 1
    assert client.found() == {(OUTAGE, "service:orders")}


def test_a_document_of_an_interrupted_attempt_is_left_out(client: Client) -> None:
    client.ingest(OUTAGE)
    client.services.corpus.catalog.claims.note_unfinished(client.document_key(OUTAGE), "half-written")
    assert client.linked("service:orders").documents == 0
    assert client.found() == set()


def test_claims_are_released(client: Client) -> None:
    client.ingest(OUTAGE)
    client.ingest(INVENTORY)
    head = client.services.corpus.catalog.head(client.document_key(OUTAGE))
    assert client.found() == FOUND
    assert head is not None
    assert (head["leaseToken"], head["tries"]) == ("", 0)


def test_a_replaced_document_has_its_new_statements(client: Client) -> None:
    client.ingest(OUTAGE)
    client.ingest(INVENTORY)
    client.ingest(OUTAGE, text="# Outage\n\nThe orders service again.\n")
    assert client.found() == {(OUTAGE, "service:orders")}
    assert client.linked("service:orders", "host:erp-db-01").mentions == 0
    assert client.found() == {(OUTAGE, "service:orders")}
