"""A company's own tools of realistic size for `source_speed`: servers in another process, and files that are made once.

`python -m tests.benchmarks.workplace NAME` serves one until its standard input ends, and prints its address. Files are
kept in the folder for temporary files: the first run also makes them, the next one measures reading alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from opx.adapters.web import open_web
from opx.connectors.connector import Connector, SourceTools
from opx.connectors.registry import checked_options, connector_type
from opx.domain.knowledge import Tier
from opx.domain.sources import SourceDefinition, SourceDocument
from opx.hygiene.addresses import AddressBook
from tests.doubles.http_double import Request
from tests.doubles.imap_server import USER, imap_server
from tests.doubles.misbehaving_site import Answer, MisbehavingSite

TEXT = "The node runs out of memory when the cache is warmed, and the kernel ends the process with a signal. " * 20
ISSUES = 20_000
PAGES = 2_000
MESSAGES = 50_000
COMMITS = 5_000
DAYS = 1_000
FOLDER = Path(gettempdir()) / "opx-benchmark"


def issue_documents() -> Iterator[SourceDocument]:
    """20,000 issues of 2 KB in the cloud, with three comments of 2 KB each."""
    with _served("jira") as url:
        yield from _made("jira", base_url=url, projects=["OPS"]).fetch()


def page_documents() -> Iterator[SourceDocument]:
    """2,000 pages of 12 KB with code, tables and lists, in-house."""
    with _served("confluence") as url:
        yield from _made("confluence", base_url=url, spaces=["OPS"]).fetch()


def mail_documents() -> Iterator[SourceDocument]:
    """50,000 messages of 2 KB on a server."""
    with _served("imap") as address:
        port, _, certificate = address.partition(" ")
        given = {"host": "127.0.0.1", "port": int(port), "user": USER, "password_secret": "mail"}
        yield from _made("imap", **given, ca_file=certificate).fetch()


def mbox_documents() -> Iterator[SourceDocument]:
    """50,000 messages of 2 KB in a file."""
    path = FOLDER / "mbox"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        with path.open("wb") as stream:
            for number in range(MESSAGES):
                stream.write(b"From ann Tue Jan  2 10:00:00 2024\n" + _message(number) + b"\n")
    yield from _made("mailbox", path=str(path)).fetch()


def slack_documents() -> Iterator[SourceDocument]:
    """A zip file of 1,000 days with 200 messages each, of which half are in threads."""
    path = FOLDER / "slack.zip"
    if not path.exists():
        _make_export(path)
    yield from _made("slack_export", path=str(path)).fetch()


def commit_documents() -> Iterator[SourceDocument]:
    """5,000 commits that change three of 300 files."""
    path = FOLDER / "repository.git"
    if not path.exists():
        _make_repository(path)
    yield from _made("git_history", path=str(path)).fetch()


class _Secrets:
    def get(self, name: str) -> str:
        return f"{name}-value"


def _made(kind: str, **options: Any) -> Connector[Any]:
    definition = SourceDefinition("work", kind, "vendor/linux", Tier.INTERNAL, options=options)
    host = str(options.get("base_url", "")).removeprefix("http://")
    book = AddressBook(allowed=("127.0.0.1",))
    tools = SourceTools(open_web(allowed_hosts=(host,)), _Secrets(), lambda: 0.0, addresses=book.addresses_of)
    return connector_type(kind)(definition, checked_options(definition), tools)


@contextmanager
def _served(name: str) -> Iterator[str]:
    line = [sys.executable, "-m", "tests.benchmarks.workplace", name]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate("")


# -- what there is


def _message(number: int) -> bytes:
    head = f"From: Ann <ann@example.org>\nSubject: Alert {number}\nDate: Tue, 02 Jan 2024 10:00:00 +0000\n\n"
    return (head + TEXT + "\n").encode()


def _serve_jira() -> None:
    text = {"type": "doc", "content": [{"type": "paragraph", "content": [{"type": "text", "text": TEXT}]}]}
    moment = "2024-01-02T15:00:00.000+0000"
    comments = [{"author": {"displayName": "Ann"}, "created": moment, "body": text}] * 3
    fields = {"summary": "Out of memory", "description": text, "created": moment, "updated": moment}
    fields |= {"comment": {"comments": comments, "total": 3}}

    def page(request: Request) -> Answer:
        body = request.json()
        start, size = int(body.get("nextPageToken", "0")), body["maxResults"]
        issues = [{"key": f"OPS-{number}", "fields": fields} for number in range(start, min(start + size, ISSUES))]
        return Answer(200, {"issues": issues, "nextPageToken": str(start + size), "isLast": start + size >= ISSUES})

    with MisbehavingSite() as site:
        site.page("/rest/api/2/serverInfo", {"deploymentType": "Cloud"})
        site.on("/rest/api/3/search/jql", page)
        _serve_until_closed(site.url())


def _serve_confluence() -> None:
    code = "<ac:structured-macro ac:name='code'><ac:plain-text-body><![CDATA[kubectl get pods]]></ac:plain-text-body>"
    part = f"<h2>Step</h2><p>{TEXT}</p><ul><li>one</li><li>two</li></ul>{code}</ac:structured-macro>"
    row = "<tr><td>a</td><td>b</td></tr>"
    version = {"version": {"when": "2024-01-02T10:00:00.000Z"}}
    body = {"body": {"storage": {"value": part * 5 + f"<table><tbody>{row * 20}</tbody></table>"}}}
    whole = {"title": "Restart", "history": {"createdDate": "2024-01-01T10:00:00.000Z"}, **version, **body}

    def listing(request: Request) -> Answer:
        start, size = int(request.parameters["start"]), int(request.parameters["limit"])
        found = [{"id": str(number), **version} for number in range(start, min(start + size, PAGES))]
        return Answer(200, {"results": found, "_links": {"next": "more"} if start + size < PAGES else {}})

    with MisbehavingSite() as site:
        site.on("/rest/api/content", listing)
        answer = Answer(200, json.dumps(whole))
        for number in range(PAGES):
            site.on(f"/rest/api/content/{number}", answer)
        _serve_until_closed(site.url())


def _serve_imap() -> None:
    with TemporaryDirectory() as folder, imap_server(Path(folder)) as server:
        server.folders["INBOX"].messages = {number: _message(number) for number in range(1, MESSAGES + 1)}
        _serve_until_closed(f"{server.port} {server.ca_file}")


def _serve_until_closed(where: str) -> None:
    print(where, flush=True)
    sys.stdin.read()


def _make_export(path: Path) -> None:
    import zipfile
    from datetime import UTC, datetime

    FOLDER.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("channels.json", json.dumps([{"id": "C1", "name": "general"}]))
        for day in range(DAYS):
            began = 1_600_041_600 + day * 86_400
            messages = [_slack_message(began, number) for number in range(200)]
            name = datetime.fromtimestamp(began, UTC).date().isoformat()
            file.writestr(f"general/{name}.json", json.dumps(messages))


def _slack_message(began: int, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {
        "type": "message",
        "user": "U1",
        "text": TEXT[:200] + f" {number}",
        "ts": f"{began + number:.6f}",
    }
    if number % 2:
        first = began + number // 10 * 10 + 1
        message |= {"thread_ts": f"{first:.6f}", "reply_count": 4, "latest_reply": f"{first + 8:.6f}"}
    return message


def _make_repository(path: Path) -> None:
    from dulwich.objects import Blob, Commit, Tree
    from dulwich.repo import Repo

    path.mkdir(parents=True)
    repo: Any = Repo.init_bare(str(path))
    tree: Any = Tree()
    objects: list[Any] = []
    parents: list[bytes] = []
    for number in range(COMMITS):
        for file in range(300) if not number else (number % 300, number * 7 % 300, number * 11 % 300):
            blob: Any = Blob.from_string(f"{TEXT}\n{number} {file}\n".encode())
            tree.add(f"file{file}.py".encode(), 0o100644, blob.id)
            objects.append((blob, None))
        commit: Any = Commit()
        commit.tree, commit.parents = tree.id, parents
        commit.author = commit.committer = b"Ann <ann@example.org>"
        commit.author_time = commit.commit_time = 1_600_000_000 + number
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = f"OPS-{number}: change\n\n{TEXT}".encode()
        objects += [(tree.copy(), None), (commit, None)]
        parents = [commit.id]
    repo.object_store.add_objects(objects)
    repo.refs[b"HEAD"] = parents[0]
    repo.close()


SERVERS: dict[str, Callable[[], None]] = {"jira": _serve_jira, "confluence": _serve_confluence, "imap": _serve_imap}

if __name__ == "__main__":
    SERVERS[sys.argv[1]]()
