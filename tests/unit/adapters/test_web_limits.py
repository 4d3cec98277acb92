"""Limits that protect the web client from malicious or broken hosts."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from opx.adapters.web import Exchanges, HttpWeb, RateWindow
from opx.errors import ForbiddenAddressError, SourceRefusedError, SourceUnavailableError
from opx.hygiene.addresses import AddressBook, target_of
from opx_testing.fake_time import FakeTime
from tests.doubles.misbehaving_site import Answer, MisbehavingSite, a_web


def a_client(book: AddressBook, *, tls: ssl.SSLContext | None = None) -> HttpWeb:
    time = FakeTime()
    return HttpWeb(
        book=book,
        exchanges=Exchanges(seconds=5, tls=tls),
        window=RateWindow(None, clock=time.clock, sleep=time.sleep),
        validators=None,
        clock=time.clock,
        sleep=time.sleep,
    )


# -- size


def test_a_reply_up_to_the_limit_is_taken(site: MisbehavingSite) -> None:
    site.page("/x", "z" * 1000)
    with closing(a_web(site)) as web:
        assert len(web.get(site.url("/x"), limit=1000).body) == 1000


@pytest.mark.parametrize("length", [None, -1])
def test_a_larger_reply_is_refused_with_and_without_a_declared_length(
    site: MisbehavingSite, length: int | None
) -> None:
    site.on("/x", Answer(200, b"z" * 1001, declared_length=length))
    with closing(a_web(site)) as web, pytest.raises(SourceRefusedError, match="larger than 1,000 bytes"):
        web.get(site.url("/x"), limit=1000)


def test_a_length_that_is_claimed_is_enough_to_refuse(site: MisbehavingSite) -> None:
    site.on("/x", Answer(200, b"", declared_length=10**15))
    with closing(a_web(site)) as web, pytest.raises(SourceRefusedError, match="larger"):
        web.get(site.url("/x"))


def test_a_small_reply_that_unpacks_to_a_large_one_is_refused(site: MisbehavingSite) -> None:
    site.bomb("/x", megabytes=40)
    with closing(a_web(site)) as web, pytest.raises(SourceRefusedError, match="larger"):
        web.get(site.url("/x"))


def test_a_packed_reply_is_unpacked(site: MisbehavingSite) -> None:
    site.bomb("/x", megabytes=1)
    with closing(a_web(site)) as web:
        assert web.get(site.url("/x")).body == bytes(1024 * 1024)


def test_a_reply_with_a_wrong_content_encoding_breaks_off(site: MisbehavingSite) -> None:
    site.on("/x", Answer(200, b"no gzip", {"Content-Encoding": "gzip"}))
    with closing(a_web(site)) as web, pytest.raises(SourceUnavailableError, match="broke off"):
        web.get(site.url("/x"))


# -- time


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"z" * 1000, drip=0.02),
        Answer(200, b"z" * 1000, drip=0.02, declared_length=-1),
        Answer(200, b"", drip_head=0.02),
    ],
    ids=["body", "body without a length", "header"],
)
def test_a_reply_that_drips_ends_at_the_deadline(site: MisbehavingSite, answer: Answer) -> None:
    site.on("/x", answer)
    with closing(a_web(site, timeout=0.2)) as web, pytest.raises(SourceUnavailableError, match=r"longer than 0\.2"):
        web.get(site.url("/x"))
    assert site.request_count("/x") == 1
    assert site.dripped < 500


def test_the_next_request_after_a_deadline_works(site: MisbehavingSite) -> None:
    site.page("/x", "z" * 50)
    site.drip("/x", seconds=0.05)
    with closing(a_web(site, timeout=0.2)) as web:
        with pytest.raises(SourceUnavailableError):
            web.get(site.url("/x"))
        assert web.get(site.url("/x")).status == 200


# -- where connections go


def test_the_connection_goes_to_the_address_that_was_checked(site: MisbehavingSite) -> None:
    """A name server that answers differently the second time moves nothing: there is no second time."""
    lookups: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        lookups.append(host)
        return ["127.0.0.1"] if len(lookups) == 1 else ["10.0.0.1"]

    site.page("/x", "here")
    address = f"http://rebinding.example:{site.port}/x"
    with closing(a_client(AddressBook(allowed=["rebinding.example"], resolve=resolve))) as web:
        assert web.get(address).text() == "here"
    assert lookups == ["rebinding.example"]
    assert site.requests[-1].headers["host"] == f"rebinding.example:{site.port}"


def test_a_name_is_checked_at_every_request(site: MisbehavingSite) -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    site.page("/x", "here")
    book = AddressBook(resolve=lambda host, port: next(answers))
    with closing(a_client(book)) as web:
        for _ in range(2):
            with pytest.raises(ForbiddenAddressError):
                web.get(f"http://e.example:{site.port}/x")
    assert site.requests == []


def test_the_next_address_is_tried_when_one_takes_no_connection(site: MisbehavingSite) -> None:
    site.page("/x", "here")
    book = AddressBook(allowed=["e.example"], resolve=lambda host, port: ["::1", "127.0.0.1"])
    with closing(a_client(book)) as web:
        assert web.get(f"http://e.example:{site.port}/x").text() == "here"


def test_a_site_that_is_not_allowed_does_not_lead_to_one_that_is(site: MisbehavingSite) -> None:
    """Hosts that an operator allowed for a source must not be reached through pages of other sites."""
    with MisbehavingSite() as inner:
        inner.page("/secret", "inside")
        site.redirect("/x", inner.url("/secret"))
        public = AddressBook(allowed=[inner.host], resolve=lambda host, port: ["127.0.0.1"])
        public.addresses = lambda target: ("127.0.0.1",)  # type: ignore[method-assign] # as if it were public
        with closing(a_client(public)) as web, pytest.raises(ForbiddenAddressError, match="only if requested directly"):
            web.get(site.url("/x"))
        assert inner.requests == []


# -- who answers


class _Quiet(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        body = (self.headers["host"] or "").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of proved.example, signed by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "proved.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("proved.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure_port(certificate: Path) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = HTTPServer(("127.0.0.1", 0), _Quiet)
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_host_proves_its_name_although_the_connection_is_to_an_address(certificate: Path, secure_port: int) -> None:
    book = AddressBook(allowed=["proved.example"], resolve=lambda host, port: ["127.0.0.1"])
    with closing(a_client(book, tls=ssl.create_default_context(cafile=str(certificate)))) as web:
        assert web.get(f"https://proved.example:{secure_port}/x").text() == f"proved.example:{secure_port}"


def test_a_certificate_of_another_host_is_refused_at_once(certificate: Path, secure_port: int) -> None:
    book = AddressBook(allowed=["another.example"], resolve=lambda host, port: ["127.0.0.1"])
    tls = ssl.create_default_context(cafile=str(certificate))
    with closing(a_client(book, tls=tls)) as web, pytest.raises(SourceRefusedError, match="no trusted connection"):
        web.get(f"https://another.example:{secure_port}/x")


def test_a_certificate_of_an_unknown_authority_is_refused(secure_port: int) -> None:
    book = AddressBook(allowed=["proved.example"], resolve=lambda host, port: ["127.0.0.1"])
    with closing(a_client(book)) as web, pytest.raises(SourceRefusedError, match="no trusted connection"):
        web.get(f"https://proved.example:{secure_port}/x")


def test_an_address_in_brackets_is_an_address() -> None:
    assert target_of("http://[2606:4700::1111]:8080/x").netloc == "[2606:4700::1111]:8080"
