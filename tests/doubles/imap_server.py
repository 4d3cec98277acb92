"""An IMAP server on 127.0.0.1 over TLS with the commands that the mailbox connector sends, and with failures."""

from __future__ import annotations

import datetime
import re
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

USER, PASSWORD = "ops@example.org", "mail-value"
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass
class Folder:
    """Messages by number."""

    messages: dict[int, bytes] = field(default_factory=dict)
    validity: int = 7
    deleted: set[int] = field(default_factory=set)


@dataclass
class ImapDouble:
    """`commands` are those that were received. `hang_up_at` ends the connection at the command with this prefix, `extra`
    are bytes by which each literal is declared too long, `without` is a fact about folders that is left out, `drip` are
    seconds before each byte."""

    port: int
    ca_file: Path
    folders: dict[str, Folder] = field(default_factory=lambda: {"INBOX": Folder()})
    commands: list[str] = field(default_factory=list)
    hang_up_at: str = ""
    refuse_at: str = ""
    extra: int = 0
    without: str = ""
    drip: float = 0.0

    def fetched(self) -> list[int]:
        """Numbers whose bytes were sent."""
        sets = [command.split()[2] for command in self.commands if "BODY.PEEK[]" in command]
        return [int(uid) for each in sets for uid in each.split(",")]


@contextmanager
def imap_server(folder: Path) -> Iterator[ImapDouble]:
    certificate, key = _certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.context = context
        server.double = ImapDouble(server.server_address[1], certificate)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.double
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    context: ssl.SSLContext
    double: ImapDouble

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no failure of the double."""


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        self.request.settimeout(10)
        with self.request:
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        with self.request:
            super().finish()

    def handle(self) -> None:
        double = self.server.double
        self.folder = Folder()
        self._send(b"* OK ready")
        while line := self.rfile.readline().decode("ascii").strip():
            tag, _, command = line.partition(" ")
            double.commands.append(command)
            if double.hang_up_at and command.startswith(double.hang_up_at):
                return
            if double.refuse_at and command.startswith(double.refuse_at):
                self._send(f"{tag} NO [UNAVAILABLE] not now".encode())
                continue
            word = command.split()[0].upper()
            answer = getattr(self, f"on_{'uid_' + command.split()[1].lower() if word == 'UID' else word.lower()}")
            self._send(f"{tag} {answer(command)}".encode())
            if word == "LOGOUT":
                return

    def on_capability(self, command: str) -> str:
        self._send(b"* CAPABILITY IMAP4rev1")
        return "OK done"

    def on_login(self, command: str) -> str:
        return "OK done" if command == f'LOGIN {USER} "{PASSWORD}"' else "NO [AUTHENTICATIONFAILED] wrong"

    def on_logout(self, command: str) -> str:
        self._send(b"* BYE")
        return "OK done"

    def on_examine(self, command: str) -> str:
        name = _QUOTED.search(command)
        if not name or name[1] not in self.server.double.folders:
            return "NO no such folder"
        self.folder = self.server.double.folders[name[1]]
        facts = {
            "EXISTS": f"* {len(self.folder.messages)} EXISTS",
            "UIDVALIDITY": f"* OK [UIDVALIDITY {self.folder.validity}] it is",
            "UIDNEXT": f"* OK [UIDNEXT {max(self.folder.messages, default=0) + 1}] it will be",
        }
        for fact, line in facts.items():
            if fact != self.server.double.without:
                self._send(line.encode())
        return "OK [READ-ONLY] done"

    def on_uid_search(self, command: str) -> str:
        first, last = map(int, command.split()[3].split(":"))
        hidden = self.folder.deleted if "UNDELETED" in command else ()
        found = [uid for uid in self.folder.messages if first <= uid <= last and uid not in hidden]
        self._send(("* SEARCH " + " ".join(map(str, found))).encode())
        return "OK done"

    def on_uid_fetch(self, command: str) -> str:
        for uid in map(int, command.split()[2].split(",")):
            data = self.folder.messages.get(uid)
            if data is None:
                continue
            if "BODY.PEEK[]" in command:
                size = len(data) + self.server.double.extra
                self._send(b"* %d FETCH (UID %d BODY[] {%d}\r\n%b)" % (uid, uid, size, data))
            else:
                when = '"17-Jul-2024 02:44:25 -0700"'
                self._send(f"* {uid} FETCH (UID {uid} RFC822.SIZE {len(data)} INTERNALDATE {when})".encode())
        return "OK done"

    def _send(self, line: bytes) -> None:
        data = line + b"\r\n"
        if not self.server.double.drip:
            self.wfile.write(data)
        for position in range(len(data) if self.server.double.drip else 0):
            time.sleep(self.server.double.drip)
            self.wfile.write(data[position : position + 1])


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Files with a certificate for localhost and 127.0.0.1 that it signed itself, and with its key."""
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(
            name, name, key.public_key(), 1, now - datetime.timedelta(1), now + datetime.timedelta(1)
        )
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(x509), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = (folder / "certificate.pem", folder / "key.pem")
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(secret)
    return files


def _usage(x509: Any) -> Any:
    """Returns the key usage that strict clients require of a self-signed certificate."""
    names = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    rest = dict.fromkeys((*names, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=True, **rest)
