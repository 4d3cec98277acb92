"""A seal names what was changed since, also where a file and its checksum were changed together, and proves itself by its
signature."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.errors import (
    AlteredSealError,
    InvalidInputError,
    ReceiptNotFoundError,
    SealNotFoundError,
    UntrustedSealError,
)
from opx.operations.context import Caller, Context
from opx.ports.tables import AUDIT, DOCUMENTS, LIFECYCLE
from opx.retrieval.receipts import TamperedReceiptError
from opx_assurance.capability import assurance
from opx_assurance.operations import ProveReceipt, prove_receipt
from opx_assurance.seal import contents
from opx_assurance.seal.merkle import leaf_hash, tree_hash
from opx_assurance.seal.records import Seal
from opx_assurance.seal.sealing import SealComparison, SealedReceipt
from opx_assurance.seal.signing import SigningKey, write_new_key
from tests.damage.homes import CHANGED, OTHERS, alter, copied, is_found, text_of, version_file, work
from tests.support.reindex_support import services_at


@pytest.fixture
def home(undamaged: Path, tmp_path: Path) -> Path:
    return copied(undamaged, tmp_path / "home")


@pytest.fixture
def key(tmp_path: Path) -> str:
    """The path of a signing key."""
    write_new_key(tmp_path / "key.pem")
    return str(tmp_path / "key.pem")


def sealed(home: Path, key: str = "") -> Seal:
    with services_at(home, signing_key=key) as services:
        return services.part(assurance).sealing().seal()


def compared(home: Path, key: str = "", **known: str) -> SealComparison:
    with services_at(home, signing_key=key) as services:
        return services.part(assurance).sealing().compare(**known)


def changed(comparison: SealComparison) -> set[tuple[str, str, str]]:
    return {(one.part, one.kind, one.name) for one in comparison.differences}


# -- the tree


_LEAVES = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
_ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
"""Inputs and roots of the test of Certificate Transparency's reference implementation."""


@pytest.mark.parametrize("count", range(9))
def test_roots_are_those_of_rfc_6962(count: int) -> None:
    leaves = [leaf_hash(bytes.fromhex(data)) for data in _LEAVES[:count]]
    assert tree_hash(leaves).hex() == _ROOTS[count]


def test_a_node_is_no_leaf() -> None:
    one, two = leaf_hash(b"1"), leaf_hash(b"2")
    assert tree_hash([one, two]) != leaf_hash(one + two)


# -- comparisons


def test_nothing_differs_from_a_seal_without_changes(home: Path) -> None:
    first = sealed(home)
    assert compared(home).is_same
    assert sealed(home).root == first.root


FIELDS = (
    "category chunkCount chunksChecksum contentHash createdAt currentSince documentId expires key language metadata "
    "outlineChecksum owner remarks reviewBy reviewedAt scope services severity source state supersededAt tags tier title "
    "tokenCount trust untrusted version"
)
"""Fields of a version without attributes, in every seal: with another one, all seals before it would differ."""


def test_a_field_without_a_value_is_none_of_a_seal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "leaf_hash", bytes)
    with services_at(home) as services:
        listed = contents.SealedContents(services.tables, services.storage, services.corpus, lambda *_: None).leaves()
        rows = [json.loads(leaf.hash)[2][0] for leaf in listed if leaf.part == contents.VERSIONS_PART]
    assert {" ".join(sorted(row)).removeprefix("attributes ") for row in rows} == {FIELDS}
    assert [row["attributes"] for row in rows if "attributes" in row] == [{"owner": "platform"}]


def test_two_homes_restored_from_one_archive_have_equal_roots(home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "all.opx"
    with services_at(home) as services:
        services.part(assurance).exporter().write(archive, audit=True)
    roots = {sealed(home).root}
    for name in ("one", "two"):
        with services_at(tmp_path / name) as services:
            services.part(assurance).importer().run(archive)
        roots.add(sealed(tmp_path / name).root)
    assert len(roots) == 1


def test_a_change_that_was_ingested_is_named_with_its_time(home: Path) -> None:
    sealed(home)
    with services_at(home) as services:
        services.store.put(CHANGED, text_of("changed", "fourth").encode())
        work(services)
    found = compared(home)
    assert ("documents", "altered", CHANGED) in changed(found)
    assert ("versions", "added", f"version 4 of {CHANGED}") in changed(found)
    assert all(one.since for one in found.differences)
    assert not any(one.is_unexplained for one in found.differences)


def test_a_file_that_was_altered_together_with_its_checksum_is_named(home: Path) -> None:
    sealed(home)
    path = version_file(home, ".jsonl", current=False)
    path.write_text(path.read_text().replace("check changed", "erase changed"))
    checksum, document_id = hashlib.sha256(path.read_bytes()).hexdigest(), path.name.removesuffix(".jsonl")
    with closing(sqlite3.connect(home / "opx.db", isolation_level=None)) as connection:
        connection.execute(
            f"UPDATE \"{DOCUMENTS.name}\" SET _item = json_set(_item, '$.chunksChecksum', ?) WHERE documentId = ?",
            (checksum, document_id),
        )
    assert not is_found(home)
    found = compared(home)
    assert changed(found) == {("versions", "altered", f"version 1 of {CHANGED}")}


def test_a_record_of_the_audit_log_that_was_altered_is_named_with_its_day(home: Path) -> None:
    sealed(home)
    with services_at(home) as services:
        table = services.tables.table(AUDIT)
        item = next(one for one in services.tables.every_item(AUDIT) if "queryHash" in one)
        table.put({**item, "answerHash": "0" * 64})
    found = compared(home)
    assert changed(found) == {(f"audit {item['askedAt'][:10]}", "altered", item["receiptId"])}
    assert all(one.is_unexplained for one in found.differences)


def test_an_object_that_changed_without_being_written_is_named(home: Path) -> None:
    sealed(home)
    alter(home / "corpus" / OTHERS[0])
    assert changed(compared(home)) == {("documents", "altered", OTHERS[0])}


@pytest.mark.parametrize("changed_key", ["documents/runbooks/a.md", "documents/runbooks/a.md-b.md"])
def test_a_changed_sidecar_is_named_also_behind_other_documents(home: Path, changed_key: str) -> None:
    """`a.md-b.md` and its sidecar are listed between `a.md` and the sidecar of that."""
    with services_at(home) as services:
        for name in ("documents/runbooks/a.md", "documents/runbooks/a.md-b.md"):
            services.store.put(name, text_of(name, "first").encode())
            services.store.put(f"{name}.metadata.json", b'{"metadataAttributes": {"owner": "platform"}}')
        work(services)
    sealed(home)
    alter(home / "corpus" / f"{changed_key}.metadata.json")
    assert changed(compared(home)) == {("documents", "altered", changed_key)}


def test_lost_questions_are_named(home: Path) -> None:
    sealed(home)
    (home / "questions.db").unlink()
    assert {kind for _, kind, _ in changed(compared(home))} == {"removed"}


def test_nothing_was_sealed_yet(home: Path) -> None:
    with pytest.raises(SealNotFoundError, match="`opx seal`"):
        compared(home)


def test_another_root_than_the_noted_one_is_an_error(home: Path) -> None:
    root = sealed(home).root
    assert compared(home, root=root).is_same
    with pytest.raises(AlteredSealError, match=f"has the root {root}, not {'0' * 64}"):
        compared(home, root="0" * 64)


# -- signatures


def test_a_signed_seal_is_trusted_by_who_knows_the_key(home: Path, key: str) -> None:
    seal = sealed(home, key)
    assert seal.public_key == SigningKey.of_pem(Path(key).read_text()).public
    assert compared(home, key).is_trusted
    assert compared(home, public_key=seal.public_key).is_trusted
    assert not compared(home).is_trusted


def test_a_signature_of_another_key_is_an_error(home: Path, key: str, tmp_path: Path) -> None:
    sealed(home, key)
    other = write_new_key(tmp_path / "other.pem")
    with pytest.raises(UntrustedSealError, match=f"signed by another key, .*, not {other.public}"):
        compared(home, str(tmp_path / "other.pem"))


def test_a_seal_without_a_signature_is_an_error_if_a_key_is_known(home: Path, key: str) -> None:
    assert sealed(home).signature == ""
    with pytest.raises(UntrustedSealError, match="is not signed"):
        compared(home, key)


def stored(home: Path, **fields: object) -> None:
    """Changes fields of the stored seal."""
    with services_at(home) as services:
        table = services.tables.table(LIFECYCLE)
        item = table.get({"subject": "seal", "entry": "last"})
        assert item
        table.put({**item, "seal": json.dumps({**json.loads(item["seal"]), **fields})})


@pytest.mark.parametrize("fields", [{"at": "2020-01-01T00:00:00Z"}, {"program": "9"}, {"signature": "00" * 64}])
def test_a_signed_seal_that_was_altered_is_an_error(home: Path, key: str, fields: dict[str, str]) -> None:
    sealed(home, key)
    stored(home, **fields)
    with pytest.raises(AlteredSealError, match="was altered"):
        compared(home)


def test_a_seal_made_by_somebody_without_the_key_is_an_error(home: Path, key: str, tmp_path: Path) -> None:
    """An attacker who changes data and seal can only sign with a key of his own."""
    mine = sealed(home, key)
    write_new_key(tmp_path / "his.pem")
    sealed(home, str(tmp_path / "his.pem"))
    stored(home, publicKey=mine.public_key)
    with pytest.raises(AlteredSealError, match="its signature doesn't match"):
        compared(home, key)


def test_leaves_that_were_altered_with_the_data_are_an_error(home: Path) -> None:
    sealed(home)
    with services_at(home) as services:
        table = services.tables.table(LIFECYCLE)
        page = next(one for one in table.query("seal") if "leaves" in one)
        table.put({**page, "leaves": [*page["leaves"][:-1], page["leaves"][-1][:-4] + "0000"]})
    with pytest.raises(AlteredSealError, match="its hashes don't lead to its root"):
        compared(home)


@pytest.mark.parametrize("text", ["no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_text_that_is_no_key_is_refused(home: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.pem").write_text(text)
    with pytest.raises(InvalidInputError, match="no private key in PEM form"):
        sealed(home, str(tmp_path / "bad.pem"))


def test_a_missing_key_is_refused(home: Path) -> None:
    with pytest.raises(InvalidInputError, match="can't be read"):
        sealed(home, "/nowhere/key.pem")


def test_a_key_may_be_a_secret(home: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("seal-key", Path(key).read_text())
    assert sealed(home, "seal-key").public_key == SigningKey.of_pem(Path(key).read_text()).public


def test_a_new_key_never_replaces_a_file(key: str) -> None:
    before = Path(key).read_text()
    with pytest.raises(InvalidInputError, match="exists already"):
        write_new_key(Path(key))
    assert Path(key).read_text() == before
    assert Path(key).stat().st_mode & 0o077 == 0


# -- receipts


def an_answer(home: Path) -> dict[str, Any]:
    with services_at(home) as services:
        receipt = (
            services.questions.for_reader().search("procedure other2 fails", QueryConfig(min_confidence=0.0)).receipt
        )
    assert receipt
    return dict(receipt)


def proved(home: Path, receipt: dict[str, Any], key: str = "") -> SealedReceipt:
    with services_at(home, signing_key=key) as services:
        context = Context(services, Caller(Identity(), owns_system=True))
        return prove_receipt(context, ProveReceipt(receipt=receipt))


def forged(receipt: dict[str, Any]) -> dict[str, Any]:
    """The receipt without its first result, with hashes that fit."""
    from opx.retrieval.receipts import _hash_of_results, _sha256

    content = {name: value for name, value in receipt.items() if name != "sha256"}
    content["results"] = receipt["results"][1:]
    content["answerHash"] = _hash_of_results(content["results"])
    return {**content, "sha256": _sha256(content)}


def record(home: Path, receipt: dict[str, Any], **fields: object) -> None:
    """Changes the record of an answer in the audit log."""
    with services_at(home) as services:
        table = services.tables.table(AUDIT)
        item = table.get({"receiptId": receipt["receiptId"]})
        assert item
        table.put({**item, **fields})


def test_a_receipt_is_proved_by_the_seal_after_it(home: Path, key: str) -> None:
    receipt = an_answer(home)
    seal = sealed(home, key)
    assert proved(home, receipt, key) == SealedReceipt(
        receipt["receiptId"], seal.at, seal.root, seal.public_key, is_trusted=True
    )


def test_a_forged_receipt_with_fitting_hashes_is_refused(home: Path) -> None:
    receipt = an_answer(home)
    sealed(home)
    with pytest.raises(TamperedReceiptError, match="the audit log has another answer"):
        proved(home, forged(receipt))


def test_a_receipt_that_was_forged_with_its_record_is_refused(home: Path) -> None:
    receipt = an_answer(home)
    sealed(home)
    other = forged(receipt)
    record(home, receipt, answerHash=other["answerHash"])
    with pytest.raises(TamperedReceiptError, match="record of this answer was changed after the seal"):
        proved(home, other)


def test_a_record_that_was_dated_back_is_refused(home: Path) -> None:
    sealed(home)
    receipt = an_answer(home)
    record(home, receipt, askedAt="2020-01-01T00:00:00.000Z")
    with pytest.raises(TamperedReceiptError, match="record of this answer was changed after the seal"):
        proved(home, receipt)


def test_an_answer_after_the_seal_is_not_proved_yet(home: Path) -> None:
    sealed(home)
    receipt = an_answer(home)
    record(home, receipt, askedAt="2999-01-01T00:00:00.000Z")
    with pytest.raises(SealNotFoundError, match="after the last seal"):
        proved(home, receipt)


def test_a_receipt_of_another_home_is_not_on_record(home: Path) -> None:
    receipt = an_answer(home)
    sealed(home)
    with services_at(home) as services:
        services.tables.table(AUDIT).delete({"receiptId": receipt["receiptId"]})
    with pytest.raises(ReceiptNotFoundError):
        proved(home, receipt)


# -- storage


def test_a_new_seal_replaces_the_leaves_of_the_one_before(home: Path) -> None:
    first = sealed(home)
    with services_at(home) as services:
        services.store.put(CHANGED, text_of("changed", "fourth").encode())
        work(services)
    second = sealed(home)
    assert replace(second, at=first.at) != first
    assert compared(home).is_same
    with services_at(home) as services:
        pages = [one["entry"] for one in services.tables.table(LIFECYCLE).query("seal") if "leaves" in one]
    assert pages == [f"leaves#{second.root[:16]}#00000"]
