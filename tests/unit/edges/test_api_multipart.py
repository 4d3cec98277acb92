"""Files pushed as multipart forms: parsing of bodies, and ingestion of the files."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from lambdas.manage_knowledge.handler import make_handler
from opx.domain.requests import RequestError
from opx.edges.http import MAX_BODY_BYTES
from opx.ingestion.files import OBJECT_METADATA
from opx.operations.forms import MAX_PARTS, UploadedFile, checked_name, is_form, read_form
from opx.operations.system import System
from tests.support.agent_calls import a_system
from tests.support.api_requests import Handler, a_request, a_token, answered, refusal
from tests.support.fakes import FakeContext, function_logs

BOUNDARY = "----boundary7"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"
PROCEDURES = {"tier": "internal", "category": "runbooks/procedures"}
FOLDER = "clients/acme/documents/runbooks/procedures/"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def a_part(name: str, data: bytes, filename: str | None = None, kind: str = "") -> bytes:
    file = f'; filename="{filename}"' if filename is not None else ""
    more = f"\r\nContent-Type: {kind}" if kind else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}{more}\r\n\r\n'
    return head.encode("utf-8", "surrogatepass") + data + b"\r\n"


def a_form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def a_file(filename: str, data: bytes = b"# Rotate keys\n\nMake a new key.", kind: str = "") -> bytes:
    return a_part("file", data, filename, kind)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("forms"), {}) as found:
        yield found


@pytest.fixture
def services(system: System) -> System:
    """A shared system, as setup is slow; files of one test are not expected in the next."""
    for key in keys(system):
        system.store.delete(key)
    return system


@pytest.fixture
def handler(services: System) -> Iterator[Handler]:
    with function_logs():
        yield make_handler(lambda: services)


def keys(services: System) -> list[str]:
    return [info.key for info in services.store.list("") if "/chunks/" not in f"/{info.key}"]


def push(handler: Handler, body: bytes, content_type: str = TYPE, **more: Any) -> tuple[int, Any]:
    """Status and JSON of a pushed body. API Gateway encodes binary bodies as base64."""
    headers = {"content-type": content_type, **more.pop("headers", {})}
    event = a_request("ingest", caller=a_token("acme"), headers=headers, **{**PROCEDURES, **more})
    event["body"], event["isBase64Encoded"] = base64.b64encode(body).decode(), True
    return answered(handler(event, FakeContext()))


def stored(services: System, key: str) -> bytes:
    with services.store.open(key) as stream:
        return stream.read()


def metadata(services: System, key: str) -> dict[str, Any]:
    info = services.store.head(key)
    assert info is not None
    found: dict[str, Any] = json.loads(info.metadata[OBJECT_METADATA])
    return found


class TestPush:
    def test_a_file_is_put_under_its_name(self, handler: Handler, services: System) -> None:
        status, found = push(handler, a_form(a_file("keys.md"), a_part("title", "Schlüssel".encode())))
        assert (status, found) == (202, {"accepted": [{"objectKey": FOLDER + "keys.md"}], "refused": []})
        assert stored(services, FOLDER + "keys.md").startswith(b"# Rotate keys")
        expected = {"title": "Schlüssel", "name": "keys.md", "category": "runbooks/procedures"}
        assert metadata(services, FOLDER + "keys.md") == expected

    def test_bytes_stay_as_they_are(self, handler: Handler, services: System) -> None:
        push(handler, a_form(a_file("plan.png", PNG)))
        assert stored(services, FOLDER + "plan.png") == PNG

    def test_several_files_are_several_documents_with_the_same_tags(self, handler: Handler, services: System) -> None:
        parts = [a_file("a.md"), a_file("b.txt"), a_part("tags", b"one"), a_part("tags", b"two")]
        status, found = push(handler, a_form(*parts))
        assert (status, [each["objectKey"] for each in found["accepted"]]) == (202, [FOLDER + "a.md", FOLDER + "b.txt"])
        assert metadata(services, FOLDER + "b.txt")["tags"] == ["one", "two"]

    @pytest.mark.parametrize(
        ("source", "key"), [("docs/keys", "docs/keys.md"), ("docs/keys.MD", "docs/keys.MD"), ("a.b", "a.b.md")]
    )
    def test_a_single_file_may_have_another_name(self, handler: Handler, source: str, key: str) -> None:
        found = push(handler, a_form(a_file("upload.md"), a_part("source", source.encode())))[1]
        assert found["accepted"] == [{"objectKey": FOLDER + key}]

    def test_of_several_the_good_ones_are_accepted(self, handler: Handler, services: System) -> None:
        files = [a_file("a.md"), a_file("b.md", b""), a_file("c.exe"), a_file("a.md", b"other"), a_file("d.md", PNG)]
        status, found = push(handler, a_form(*files))
        assert (status, found["accepted"]) == (202, [{"objectKey": FOLDER + "a.md"}])
        assert [each["index"] for each in found["refused"]] == [1, 2, 3, 4]
        reasons = [each["reason"] for each in found["refused"]]
        for reason, words in zip(
            reasons, ("is empty", ".exe are not read", "has this name", "does not match"), strict=True
        ):
            assert words in reason
        assert stored(services, FOLDER + "a.md").startswith(b"# Rotate")


class TestRefused:
    @pytest.mark.parametrize(
        ("parts", "words"),
        [
            ([], "no file"),
            ([a_part("title", b"x")], "no file"),
            ([a_file("x.md", b"")], "is empty"),
            ([a_file("x.exe")], "not read"),
            ([a_file("x")], "no extension"),
            ([a_file("x.md", PNG)], "does not match its file extension"),
            ([a_file("x.md.metadata.json", b"{}")], "for metadata"),
            ([a_part("upload", b"x", "x.md")], "in the field file"),
            ([a_part("file", b"x")], "needs a filename"),
            ([a_file("x.md"), a_part("client_id", b"other")], "unknown field"),
            ([a_file("x.md"), a_part("title", b"a"), a_part("title", b"b")], "given 2 times"),
            ([a_file("x.md"), a_part("title", b"\xff")], "not UTF-8"),
            ([a_file("x.md"), a_part("title", b"x" * 100_000)], "65,536 bytes"),
            ([a_file("x.md"), a_file("y.md"), a_part("source", b"z")], "single file"),
            ([a_file("x.md"), a_part("source", b"../../../other/documents/x.md")], "malformed"),
            ([a_file("x.md"), a_part("source", b"a\0b.md")], "malformed"),
            ([a_file("x.md")] + [a_part("tags", b"x")] * MAX_PARTS, "parts"),
        ],
    )
    def test_a_wrong_form_is_refused_and_nothing_is_put(
        self, handler: Handler, services: System, parts: Sequence[bytes], words: str
    ) -> None:
        answer = push(handler, a_form(*parts))
        assert refusal(answer) == (400, "invalid_argument")
        assert words in answer[1]["error"]["message"]
        assert keys(services) == []

    @pytest.mark.parametrize(
        "name",
        [
            "../x.md",
            "/etc/passwd.md",
            "a/b.md",
            "a\\b.md",
            "..\\x.md",
            "..",
            ".md",
            ".hidden.md",
            " x.md",
            "x.md ",
            "x.md.",
            "",
            "a\x00b.md",
            "a\x1bb.md",
            "a\u202emd.exe.md",
            "a\u200bb.md",
            "\u2024\u2024\uff0fx.md",
            "a\uff0fb.md",
            "a\u2028b.md",
            "x" * 300 + ".md",
        ],
    )
    def test_hostile_names_are_refused(self, name: str) -> None:
        with pytest.raises(RequestError, match="file name"):
            checked_name(name)

    @pytest.mark.parametrize("name", ["Größe 4.md", "日本語.pdf", "a+b (1).txt", "C:x.md"])
    def test_names_of_all_languages_are_taken(self, name: str) -> None:
        assert checked_name(name) == name

    def test_a_name_in_another_form_of_unicode_is_the_same_name(self) -> None:
        assert checked_name("o\u0308.md") == checked_name("\u00f6.md")

    def test_a_header_in_a_name_is_no_header(self, handler: Handler, services: System) -> None:
        injected = 'x.md"\r\nContent-Disposition: form-data; name="source'
        assert push(handler, a_form(a_file(injected)))[0] == 400
        assert keys(services) == []

    @pytest.mark.parametrize(
        ("body", "content_type"),
        [
            (b'{"document": "x"}', TYPE),
            (a_form(a_file("x.md")), "multipart/form-data"),
            (a_form(a_file("x.md")), "multipart/form-data; boundary="),
            (a_form(a_file("x.md")), f"multipart/form-data; boundary={'b' * 71}"),
            (a_form(a_file("x.md")), "multipart/form-data; boundary=other"),
            (a_form(a_file("x.md")), "multipart/form-data; boundary=\u20ac"),
            (a_form(a_file("x.md")), "application/json"),
            (a_form(a_file("x.md")), "multipart/mixed; boundary=" + BOUNDARY),
            (a_form(a_file("x.md"))[:-20], TYPE),
            (a_form(b"--" + BOUNDARY.encode() + b"\r\n\r\nno headers\r\n"), TYPE),
            (a_form(f"--{BOUNDARY}\r\nContent-Disposition: attachment; name=x\r\n\r\ny\r\n".encode()), TYPE),
            (a_form(f"--{BOUNDARY}\r\n{'X: y' * 3000}\r\n\r\ny\r\n".encode()), TYPE),
            (a_form(f"--{BOUNDARY}\r\n".encode() + b"X: y\r\n" * 50 + b"\r\ny\r\n"), TYPE),
            (b"", TYPE),
        ],
    )
    def test_a_body_of_another_content_type_is_refused(
        self, handler: Handler, services: System, body: bytes, content_type: str
    ) -> None:
        assert refusal(push(handler, body, content_type)) == (400, "invalid_argument")
        assert keys(services) == []

    @pytest.mark.parametrize(
        ("tier", "category", "code"),
        [("internal", "cooking", "unknown_category"), ("internet", "runbooks/procedures", "invalid_argument")],
    )
    def test_unknown_categories_are_refused(self, handler: Handler, tier: str, category: str, code: str) -> None:
        assert refusal(push(handler, a_form(a_file("x.md")), tier=tier, category=category)) == (400, code)

    def test_a_hundred_megabytes_are_refused_undecoded_and_pointed_elsewhere(self, handler: Handler) -> None:
        headers = {"content-length": str(100 * 1024 * 1024)}
        answer = push(handler, b"not what it says", headers=headers)
        assert refusal(answer) == (413, "too_large")
        assert "POST /uploads" in answer[1]["error"]["message"]

    def test_a_body_above_the_limit_is_refused(self, handler: Handler) -> None:
        assert refusal(push(handler, a_form(a_file("x.md", bytes(MAX_BODY_BYTES))))) == (413, "too_large")

    def test_routes_without_forms_take_none(self, handler: Handler) -> None:
        event = a_request("prepare_upload", caller=a_token("acme"), headers={"content-type": TYPE})
        event["body"], event["isBase64Encoded"] = base64.b64encode(a_form(a_file("x.md"))).decode(), True
        assert refusal(answered(handler(event, FakeContext()))) == (400, "invalid_argument")


class TestReading:
    def test_fields_and_files_in_order(self) -> None:
        found = read_form(TYPE, a_form(a_part("a", b"1"), a_file("x.md", b"x\r\ny"), a_part("a", b"2")))
        assert found.fields == (("a", "1"), ("a", "2"))
        assert found.files == (UploadedFile("x.md", b"x\r\ny"),)

    def test_data_that_looks_like_the_boundary_stays_in_the_file(self) -> None:
        data = f"--{BOUNDARY}\r\n".encode()[:-3] + b"x\r\n--" + BOUNDARY.encode()[:-1]
        assert read_form(TYPE, a_form(a_file("x.md", data))).files[0].data == data

    @pytest.mark.parametrize(
        ("content_type", "expected"),
        [
            (TYPE, True),
            ("Multipart/Form-Data", True),
            ("application/json", False),
            ("", False),
            ("multipart/mixed", False),
        ],
    )
    def test_a_form_is_recognized_by_its_content_type(self, content_type: str, expected: bool) -> None:
        assert is_form(content_type) is expected
