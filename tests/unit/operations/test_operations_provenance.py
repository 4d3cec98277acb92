"""`explain_provenance`: channel, claims, and proofs of object, text and receipt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.provenance import Channel, ChannelKind
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.errors import DocumentNotFoundError, ReceiptNotFoundError
from opx.ingestion.corpus.chunk_files import chunk_file
from opx.ingestion.corpus.proving import Integrity
from opx.operations.context import Caller, Context
from opx.operations.corpus import Ingest, ingest
from opx.operations.provenance import DocumentProvenance, ExplainProvenance, explain_provenance
from opx.operations.system import System
from tests.support.agent_calls import a_system

TOKEN = frozenset({"opx/admin"})
OPERATOR, ACME, SHOP = Identity(principal="olga"), Identity("acme", "", "ada"), Identity("acme", "shop", "sam")
TEXT = "# Disk full\n\nDelete old segments.\n\n## Undo\n\nRestore them.\n"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with a_system(tmp_path, {}) as system:
        yield system


def context(system: System, identity: Identity) -> Context:
    return Context(system, Caller(identity, token_scopes=TOKEN))


def put(system: System, identity: Identity, text: str = TEXT, category: str = "runbooks/procedures") -> str:
    tier = system.installation.knowledge.category(category).tier
    request = Ingest(tier=tier, category=category, document=text, metadata={"source": "disk.md"})
    ingest(context(system, identity), request)
    assert system.ingestion.drain
    (outcome,) = system.ingestion.drain.run()
    return outcome.document_id


def explain(system: System, identity: Identity, document_id: str, **more: object) -> DocumentProvenance:
    request = ExplainProvenance(document_id=document_id, **more)  # type: ignore[arg-type]
    return LocalClient(context(system, identity)).call(explain_provenance, request)


def overwrite(system: System, key: str, old: bytes, new: bytes) -> None:
    with system.storage.objects.open(key) as stream:
        data = stream.read()
    assert old in data
    system.storage.objects.put(key, data.replace(old, new))


def test_it_names_channel_principal_proof_parser_and_checksums(system: System) -> None:
    found = explain(system, ACME, put(system, ACME))
    assert found.provenance
    assert found.provenance.channel == Channel(ChannelKind.API, "", "ada", "token")
    assert (found.provenance.attested, found.provenance.parser, found.scope) == (True, "markdown", "client:acme")
    assert found.object.checksum == found.text.checksum == hashlib.sha256(TEXT.encode()).hexdigest()
    assert (found.object.integrity, found.text.integrity) == (Integrity.INTACT, Integrity.INTACT)
    assert found.provenance.ingested_at >= "2020"


def test_readers_of_another_scope_see_the_channel_without_the_principal(system: System) -> None:
    document = put(system, OPERATOR)
    names = [
        one.provenance.channel.principal
        for identity in (OPERATOR, ACME, SHOP)
        if (one := explain(system, identity, document)).provenance
    ]
    assert names == ["olga", "", ""]


def test_another_clients_document_is_unknown(system: System) -> None:
    document = put(system, ACME)
    with pytest.raises(DocumentNotFoundError):
        explain(system, Identity("other"), document)


def test_claims_of_a_page_from_outside_have_their_values(system: System) -> None:
    text = "---\nauthor: Mallory\n---\n# Disk full\n\nCall me.\n"
    found = explain(system, OPERATOR, put(system, OPERATOR, text, "web/blogs"))
    assert ("author", "Mallory") in [(one.field, one.value) for one in found.claims]
    assert explain(system, OPERATOR, put(system, OPERATOR)).claims == ()


@pytest.mark.parametrize("damage", ["object", "gone", "chunk", "cut", "no chunks"])
def test_damage_is_seen(system: System, damage: str) -> None:
    document = put(system, ACME)
    (version,) = system.corpus.catalog.find(document)
    key, chunks = version.scope.prefix + version.source, chunk_file(version.key, document)
    match damage:
        case "object":
            overwrite(system, key, b"Delete", b"Keep")
        case "gone":
            system.storage.objects.delete(key)
        case "chunk":
            overwrite(system, chunks, b"Delete", b"Keep")
        case "cut":
            system.storage.objects.put(chunks, b'{"chunkId":')
        case "no chunks":
            system.storage.objects.delete(chunks)
    found = explain(system, ACME, document)
    assert (found.object.integrity, found.text.integrity) == {
        "object": (Integrity.ALTERED, Integrity.INTACT),
        "gone": (Integrity.GONE, Integrity.INTACT),
        "chunk": (Integrity.INTACT, Integrity.ALTERED),
        "cut": (Integrity.INTACT, Integrity.ALTERED),
        "no chunks": (Integrity.INTACT, Integrity.GONE),
    }[damage]


def test_the_object_of_an_earlier_version_was_replaced(system: System) -> None:
    old = put(system, ACME)
    put(system, ACME, TEXT + "\nMore.\n")
    found = explain(system, ACME, old)
    assert (found.object.integrity, found.text.integrity, found.version) == (Integrity.REPLACED, Integrity.INTACT, 1)
    assert found.provenance
    assert found.provenance.channel.principal == "ada"


def test_passages_of_a_receipt_are_compared(system: System) -> None:
    document, other = put(system, ACME), put(system, OPERATOR, "# Unrelated\n\nTea.\n", "postmortems")
    answer = system.questions.for_reader(ACME).search("disk full")
    found = explain(system, ACME, document, receipt_id="last").receipt
    assert found
    assert (found.receipt_id, found.stored) == (answer.receipt_id, True)
    assert found.chunk_ids
    unrelated = explain(system, ACME, other, receipt_id=answer.receipt_id).receipt
    assert unrelated
    assert (unrelated.chunk_ids, unrelated.stored) == ((), False)
    with pytest.raises(ReceiptNotFoundError):
        explain(system, OPERATOR, other, receipt_id=answer.receipt_id)


def test_a_version_of_before_has_no_provenance(system: System) -> None:
    document = put(system, ACME)
    (version,) = system.corpus.catalog.find(document)
    system.corpus.catalog.keep_version(version)
    assert explain(system, ACME, document).provenance
    from opx.ingestion.corpus.catalog import document_item
    from opx.ports.tables import DOCUMENTS

    system.tables.table(DOCUMENTS).put(document_item(version))
    found = explain(system, ACME, document)
    assert (found.provenance, found.object.integrity, found.text.integrity) == (
        None,
        Integrity.UNKNOWN,
        Integrity.INTACT,
    )
