"""Messages of folders on an IMAP server, read over TLS without marking them.

A message's number (UID) names it for good while the folder's UIDVALIDITY stays, and its bytes never change (RFC 3501,
2.3.1.1): which numbers there are is listed in every pull, and what wasn't taken in before is read. So messages that were
deleted or moved are noticed, and old ones that are moved into a folder are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import quote

from opx.domain.sources import Page, PullRequest, Refused, SourceDefinition, SourceDocument
from opx.domain.times import iso_time
from opx.errors import InvalidInputError, SourceRefusedError
from opx.sources.connector import Connector, Options, SourceTools, Texts
from opx.sources.shapes import OddRecordError
from opx.sources.web.addresses import AddressBook
from opx.sources.workplace.imap_session import ImapSession, MessageFacts, open_session
from opx.sources.workplace.mail_documents import message_document

WINDOW = 50_000
"""Numbers that are asked for at a time. The library reads lines of up to 1,000,000 bytes."""

BATCH = 200
FETCH_MESSAGES = 50
FETCH_BYTES = 4 * 1024 * 1024
"""Of messages that are asked for and held at a time; one that is larger comes alone."""


class ImapOptions(Options, frozen=True):
    """`ca_file` has certificates of a company's own authority. `seconds` is how long one command may take."""

    host: str
    user: str
    password_secret: str
    folders: Texts = ("INBOX",)
    port: int = 993
    ca_file: str = ""
    max_message_bytes: int = 25 * 1024 * 1024
    seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that is open. Its number among the folders is what a cursor has."""

    number: int
    name: str
    validity: int
    next: int


@dataclass(slots=True)
class _Read:
    documents: list[SourceDocument] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


class ImapConnector(Connector[ImapOptions]):
    """One document a message: its bytes, which the pipeline reads as e-mail."""

    options_type = ImapOptions

    def __init__(self, definition: SourceDefinition, options: ImapOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        bad = [name for name in options.folders if any(ord(letter) < 32 or letter == "\x7f" for letter in name)]
        if bad or not options.folders:
            raise InvalidInputError(f"{self.name}: folders must be names without control characters")
        self._addresses = tools.addresses or AddressBook().addresses_of
        self._known = tools.known

    def probe(self) -> None:
        with closing(self._session()) as session:
            session.examine(self.options.folders[0])

    def pull(self, request: PullRequest) -> Iterator[Page]:
        first = int(request.cursor.get("folder", 0))
        with closing(self._session()) as session:
            for number, name in enumerate(self.options.folders):
                if number < first:
                    continue
                folder = _Folder(number, name, *session.examine(name))
                same = number == first and request.cursor.get("validity") == folder.validity
                after = int(request.cursor.get("after", 0)) if same else 0
                yield from self._folder(session, folder, after, new=not request.since)
        yield Page(complete=True)

    def _folder(self, session: ImapSession, folder: _Folder, after: int, *, new: bool) -> Iterator[Page]:
        width = max(WINDOW, folder.next // 1000)
        for start in range(after + 1, folder.next, width):
            uids = session.uids(start, min(start + width, folder.next) - 1)
            for place in range(0, len(uids), BATCH):
                yield from self._batch(session, folder, uids[place : place + BATCH], new=new)

    def _batch(self, session: ImapSession, folder: _Folder, uids: Sequence[int], *, new: bool) -> Iterator[Page]:
        """Pages of some messages, in the order of their numbers; a page has those between them that were known."""
        keys = {uid: f"{folder.name}/{folder.validity}-{uid}.eml" for uid in uids}
        known = set() if new else set(self._known(list(keys.values())))
        old = [uid for uid in uids if keys[uid] in known]
        wanted = [uid for uid in uids if keys[uid] not in known]
        facts = sorted(session.facts(wanted), key=lambda each: each.uid) if wanted else []
        read = _Read()
        for portion in _portions(facts, self.options.max_message_bytes):
            self._read(session, folder, portion, keys, read)
            behind = portion[-1].uid
            if sum(len(each.content) for each in read.documents) >= FETCH_BYTES:
                passed = [uid for uid in old if uid <= behind]
                old = old[len(passed) :]
                yield _page(read, [keys[uid] for uid in passed], _cursor(folder, behind))
                read = _Read()
        yield _page(read, [keys[uid] for uid in old], _cursor(folder, max(uids)))

    def _read(
        self, session: ImapSession, folder: _Folder, facts: Sequence[MessageFacts], keys: dict[int, str], read: _Read
    ) -> None:
        most = self.options.max_message_bytes
        large = [each for each in facts if each.size > most]
        read.refused += [Refused(keys[each.uid], f"larger than {most:,} bytes (max_message_bytes)") for each in large]
        received = {each.uid: each.received for each in facts if each.size <= most}
        for uid, data in session.messages(list(received)) if received else ():
            try:
                read.documents.append(self._document(folder, uid, keys[uid], data, received[uid]))
            except OddRecordError as exc:
                read.refused.append(Refused(keys[uid], str(exc)))

    def _document(self, folder: _Folder, uid: int, key: str, data: bytes, received: float) -> SourceDocument:
        """Its address is as RFC 5092 has it."""
        address = f"imap://{self.options.host}/{quote(folder.name)};UIDVALIDITY={folder.validity}/;UID={uid}"
        return message_document(key, data, address=address, received=iso_time(received) if received else "")

    def _session(self) -> ImapSession:
        options = self.options
        password = self.secrets.get(options.password_secret).strip()
        if not (password + options.user).isascii():
            raise SourceRefusedError(f"{self.name}: user and password can be sent as ASCII alone; set an app password")
        session = open_session(
            options.host,
            options.port,
            addresses=self._addresses(options.host, options.port),
            ca_file=options.ca_file,
            seconds=options.seconds,
            limit=options.max_message_bytes,
        )
        try:
            session.login(options.user, password)
        except BaseException:
            session.close()
            raise
        return session


def _page(read: _Read, unchanged: Sequence[str], cursor: dict[str, int]) -> Page:
    return Page(documents=tuple(read.documents), refused=tuple(read.refused), unchanged=tuple(unchanged), cursor=cursor)


def _cursor(folder: _Folder, after: int) -> dict[str, int]:
    return {"folder": folder.number, "validity": folder.validity, "after": after}


def _portions(facts: Sequence[MessageFacts], most: int) -> Iterator[list[MessageFacts]]:
    """Messages to be asked for at a time. What is too large costs nothing: it is not asked for."""
    portion: list[MessageFacts] = []
    size = 0
    for each in facts:
        own = each.size if each.size <= most else 0
        if portion and (len(portion) >= FETCH_MESSAGES or size + own > FETCH_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += own
    if portion:
        yield portion
