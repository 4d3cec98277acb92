"""Originals of documents with masked secrets are encrypted in place, and everything else works as before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.domain.documents import DocumentKey
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity, Scope
from opx.errors import InvalidInputError, SecretNotFoundError, UnparsableDocumentError
from opx.ingestion.events import Result
from opx.ingestion.originals import KEY_BYTES, MAGIC, OriginalsKey, OriginalState, decrypted, encrypted, state_of
from opx.operations.context import Caller, Context
from opx.operations.masked_secrets import (
    CHANGE,
    ENCRYPT,
    ListMaskedSecrets,
    MaskedDocument,
    ProtectOriginals,
    list_masked_secrets,
    protect_originals,
)
from opx.operations.system import System
from opx.ports.sources import WritableSecrets
from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.capability import assurance
from opx_testing.fake_time import FakeTime
from tests.support.archive_support import put
from tests.support.cli_support import WordEmbedder
from tests.support.webhook_support import SecretsInMemory

SECRET = "wJalrXUtnFEMIzK7MDENGzbPxRfiCYzzXq1pLmKe"
TEXT = f"Restart the heron.\n\nexport AWS_SECRET_ACCESS_KEY={SECRET}\n"
NAME = "documents/runbooks/procedures/vault.md"
ACME = Scope("acme")


def a_system(home: Path, choice: str = "encrypt") -> System:
    settings = Settings(home=str(home), secret_originals=choice)
    return bootstrap(settings, clock=FakeTime().clock, embedder=WordEmbedder())


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with a_system(tmp_path / "home") as services:
        yield services


def original(services: System, key: str = NAME) -> bytes:
    with services.store.open(key) as stream:
        return stream.read()


def files_with(folder: Path, text: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def chunks(services: System, document_id: str, scope: Scope = Scope()) -> str:  # noqa: B008 (frozen)
    found = services.ingestion.pipeline.read_chunks(DocumentKey(scope, NAME), document_id)
    return "".join(chunk.content for chunk in found)


def masked(services: System, identity: Identity = Identity(), *, owner: bool = True) -> list[MaskedDocument]:  # noqa: B008
    context = Context(services, Caller(identity, owns_system=owner))
    return list(list_masked_secrets(context, ListMaskedSecrets()).documents)


# -- the list


def test_the_list_has_pages(services: System) -> None:
    for name in ("vault", "egret", "heron"):
        put(services, name, TEXT)
    context, request, seen = Context(services, Caller(Identity(), owns_system=True)), ListMaskedSecrets(limit=1), []
    while True:
        page = list_masked_secrets(context, request)
        seen += [one.source.rpartition("/")[2] for one in page.documents]
        if not page.next:
            break
        assert len(page.documents) == 1
        request = ListMaskedSecrets(limit=1, after=page.next)
    assert seen == ["egret.md", "heron.md", "vault.md"]


# -- ingestion


def test_no_file_of_the_home_has_the_secret_after_ingestion(services: System, tmp_path: Path) -> None:
    document = put(services, "vault", TEXT)
    put(services, "clean", "Restart the egret.")
    assert files_with(tmp_path, SECRET) == []
    assert original(services).startswith(MAGIC)
    assert original(services, NAME.replace("vault", "clean")) == b"# clean\n\nRestart the egret."
    assert "[masked" in chunks(services, document)
    answer = services.questions.for_reader().search("restart the heron", QueryConfig(min_confidence=0.0))
    assert any("heron" in result.content for result in answer.results)


def test_originals_stay_as_they_are_by_default(tmp_path: Path) -> None:
    with a_system(tmp_path / "home", "keep") as services:
        put(services, "vault", TEXT)
        assert SECRET.encode() in original(services)
        assert [one.original for one in masked(services)] == [OriginalState.PLAIN]


def test_stores_agree_and_documents_are_ingested_again_from_the_encrypted_object(services: System) -> None:
    document = put(services, "vault", TEXT)
    assert services.part(assurance).reconciler(thorough=True).run().differences == []
    services.ingestion.drain.run() if services.ingestion.drain else None
    assert put(services, "vault", TEXT) == document
    services.store.announce_all()  # type: ignore[attr-defined]
    assert {outcome.result for outcome in services.manager.work()} == {Result.UNCHANGED}
    assert original(services).startswith(MAGIC)  # although the same bytes were put again, in plain
    later = put(services, "vault", TEXT + "And then the egret.")
    assert later != document
    assert [one.version for one in services.corpus.catalog.versions(DocumentKey(Scope(), NAME))] == [2, 1]
    assert original(services).startswith(MAGIC)


def test_everything_is_built_anew_from_encrypted_objects(services: System, tmp_path: Path) -> None:
    document = put(services, "vault", TEXT)
    expected = chunks(services, document)
    shutil.copytree(tmp_path / "home" / "corpus" / "documents", tmp_path / "new" / "corpus" / "documents")
    shutil.copy(tmp_path / "home" / "secrets.json", tmp_path / "new" / "secrets.json")
    with a_system(tmp_path / "new") as new:
        new.store.announce_all()  # type: ignore[attr-defined]
        assert [outcome.result for outcome in new.manager.work()] == [Result.INGESTED]
        (found,) = new.corpus.catalog.versions(DocumentKey(Scope(), NAME))
        assert (found.document_id, chunks(new, document)) == (document, expected)


def test_a_copied_home_keeps_etags_and_metadata(services: System, tmp_path: Path) -> None:
    put(services, "vault", TEXT, author="ann")
    before = services.store.head(NAME)
    shutil.copytree(tmp_path / "home" / "corpus", tmp_path / "copy")
    found = FolderObjectStore(tmp_path / "copy").head(NAME)
    assert before
    assert found
    assert (found.etag, found.metadata) == (before.etag, before.metadata)


def test_a_sidecar_is_encrypted_and_read_too(services: System) -> None:
    services.store.put(
        f"{NAME}.metadata.json", b'{"metadataAttributes": {"title": "Vault of the heron", "tags": ["birds"]}}'
    )
    services.store.put(NAME, f"# x\n\n{TEXT}".encode())
    assert [outcome.result for outcome in services.manager.work()][-1] in (Result.INGESTED, Result.UNCHANGED)
    assert original(services, f"{NAME}.metadata.json").startswith(MAGIC)
    services.store.put(NAME, f"# x\n\n{TEXT} More.".encode())
    list(services.manager.work())
    found = next(services.corpus.catalog.versions(DocumentKey(Scope(), NAME)))
    assert (found.title, found.tags) == ("Vault of the heron", ("birds",))


def test_a_document_that_is_uploaded_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    store = FolderObjectStore(tmp_path)
    old = store.put(NAME, b"old")
    new = store.put(NAME, b"new", metadata={"a": "b"})
    assert not store.replace(NAME, b"cipher", read=b"old", etag=old.etag)
    assert not store.replace(NAME, b"cipher", read=b"old", etag=new.etag)
    assert not store.replace("documents/none.md", b"cipher", read=b"", etag="")
    assert store.replace(NAME, b"cipher", read=b"new", etag=new.etag)
    assert store.head(NAME) is not None
    info = store.head(NAME)
    assert info
    assert (info.etag, info.metadata, info.size) == (new.etag, {"a": "b"}, 6)


# -- archives, removal


def test_an_archive_has_ciphertext_and_is_restored_with_the_key(services: System, tmp_path: Path) -> None:
    document = put(services, "vault", TEXT, ACME)
    services.part(assurance).exporter().write(tmp_path / "all.opx")
    with a_system(tmp_path / "new") as new:
        assert isinstance(new.ports.secrets, WritableSecrets)
        new.ports.secrets.put("originals-key", services.ports.secrets.get("originals-key"))
        assert new.part(assurance).importer().run(tmp_path / "all.opx").failed == 0
        assert "[masked" in chunks(new, document, ACME)
        assert new.part(assurance).reconciler().run().differences == []
    assert files_with(tmp_path, SECRET) == []


def test_without_the_key_a_restored_document_is_a_failed_item_with_the_reason(services: System, tmp_path: Path) -> None:
    put(services, "vault", TEXT)
    services.part(assurance).exporter().write(tmp_path / "all.opx")
    with a_system(tmp_path / "new") as new:
        assert new.part(assurance).importer().run(tmp_path / "all.opx").failed == 1
        (failed,) = new.corpus.failures.items()
        assert "encrypted with another key" in failed.failure.reason


def test_a_removed_client_leaves_no_encrypted_object(services: System, tmp_path: Path) -> None:
    put(services, "vault", TEXT, ACME)
    assert services.tenants.offboarding().remove("acme").left == {}
    assert list(services.store.list("clients/acme/")) == []
    assert files_with(tmp_path / "home" / "corpus", "OPX-ENCRYPTED") == []


# -- bad input


def test_a_function_that_reads_no_originals_has_no_key() -> None:
    with pytest.raises(SecretNotFoundError, match="only ingestion"):
        OriginalsKey(SecretsInMemory, "")()


def test_letters_and_digits_without_padding_are_a_key() -> None:
    secrets = SecretsInMemory()
    secrets.values["k"] = "Zz9" * 14 + "a"
    assert len(OriginalsKey(lambda: secrets, "k")()) == KEY_BYTES


def test_ciphertext_of_one_client_is_not_read_for_another(services: System) -> None:
    put(services, "vault", TEXT, ACME)
    stolen = original(services, ACME.prefix + NAME)
    services.store.put(f"clients/other/{NAME}", stolen)
    (outcome,) = services.manager.work()
    assert outcome.result is Result.FAILED
    assert "copied from another object" in outcome.reason
    assert "heron" not in str(services.questions.for_reader(Identity("other")).query("heron"))


def test_ciphertext_that_was_changed_is_refused() -> None:
    key = b"k" * 32
    whole = encrypted(key, NAME, b"text")
    assert decrypted(key, NAME, whole) == b"text"
    for changed in (whole[:-1], whole[:-1] + b"\0", whole[: len(MAGIC)], MAGIC + b"x" * 100):
        with pytest.raises(UnparsableDocumentError):
            decrypted(key, NAME, changed)
    with pytest.raises(UnparsableDocumentError, match="another key"):
        decrypted(b"j" * 32, NAME, whole)


def test_a_malformed_key_and_an_unknown_choice_are_refused(services: System) -> None:
    assert isinstance(services.ports.secrets, WritableSecrets)
    services.ports.secrets.put("originals-key", "short")
    put(services, "vault", TEXT)
    assert [one.original for one in masked(services)] == [OriginalState.PLAIN]  # ingested all the same, and listed
    with pytest.raises(InvalidInputError, match="openssl rand"):
        services.ingestion.originals.protect(NAME)
    with pytest.raises(InvalidInputError, match="'keep' or 'encrypt'"):
        Settings(secret_originals="burn")


# -- the list


def test_the_list_has_kinds_and_places_by_owner_and_never_the_secret(services: System) -> None:
    put(services, "vault", TEXT + "password: hunter2Xy9zQ\n", owner="ann")
    put(services, "clean", "Restart the egret.")
    (found,) = masked(services)
    assert (found.scope, found.owner, found.source, found.version) == ("global", "ann", NAME, 1)
    assert [one.place for one in found.secrets] == ["line 5", "line 6"]
    assert sum(found.kinds.values()) == 2
    assert found.original is OriginalState.ENCRYPTED
    assert CHANGE in found.remedies
    assert ENCRYPT not in found.remedies
    assert SECRET not in str(found)
    assert "hunter2" not in str(found)


def test_owners_see_documents_of_their_own_scope_alone(services: System) -> None:
    for scope in (Scope(), ACME, Scope("acme", project_id="shop"), Scope("other")):
        put(services, "vault", TEXT, scope)
    assert [one.scope for one in masked(services)] == [
        "client:acme",
        "client:acme/project:shop",
        "client:other",
        "global",
    ]
    for identity in (Identity("acme"), Identity("acme", "shop"), Identity("other")):
        own = Scope(identity.client_id, project_id=identity.project_id).key
        assert [one.scope for one in masked(services, identity, owner=False)] == [own]
    assert [one.scope for one in masked(services, owner=False)] == ["global"]


def test_originals_of_earlier_documents_are_encrypted_on_request(tmp_path: Path) -> None:
    with a_system(tmp_path / "home", "keep") as services:
        put(services, "vault", TEXT)
        put(services, "clean", "Restart the egret.")
        context = Context(services, Caller(Identity(), owns_system=True))
        done = [protect_originals(context, ProtectOriginals()).encrypted for _ in range(2)]
        assert done == [1, 0]
        assert state_of(services.store, NAME) is OriginalState.ENCRYPTED
        assert services.part(assurance).reconciler(thorough=True).run().differences == []
        put(services, "vault", TEXT + "More.")
        assert masked(services)[0].version == 2
