"""Pulls conversations of a Slack export: a document per thread, and one per channel and day for messages outside of
threads.

Files as in Slack's page "How to read Slack data exports": a folder, or the zip file that it comes as. Channels are read
one after another, days in order; a thread is held until the day of its last reply, which its first message names. Markup
(mrkdwn) becomes Markdown with names instead of ids; its notation is as in Slack's pages "Formatting message text" and
"Formatting with mrkdwn".
"""

from __future__ import annotations

import html
import json
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from opx.connectors.connector import Batch, Connector, Options, SourceTools, Texts
from opx.domain.ids import iso_time
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.formats.data.replies import Filled, Loose, Named, OddRecordError, Shape, odd, shaped
from opx.formats.markdown import fenced, joined, nested, one_line

_CODE = re.compile(r"```(.*?)```", re.DOTALL)
_INLINE_CODE = re.compile(r"(`[^`\n]+`)")
_REFERENCE = re.compile(r"<([@#!]?)([^<>|\n]+)(?:\|([^<>\n]*))?>")
_BOLD = re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])")
_ITALIC = re.compile(r"(?<![\w_])_(?=\S)([^_\n]+?)(?<=\S)_(?![\w_])")
_STRIKE = re.compile(r"(?<![\w~])~(?=\S)([^~\n]+?)(?<=\S)~(?![\w~])")
_BULLET = re.compile(r"^[•◦▪] ?", re.MULTILINE)


def slack_markdown(text: str, users: Mapping[str, str], channels: Mapping[str, str], under: int) -> str:
    """Converts a message to Markdown. Its headings (Slack has none) are below level `under`."""
    parts: list[str] = []
    at = 0
    for match in _CODE.finditer(text):
        parts += [_prose(text[at : match.start()], users, channels), fenced(_plain(match[1], users, channels))]
        at = match.end()
    parts.append(_prose(text[at:], users, channels))
    return nested("\n\n".join(part.strip("\n") for part in parts if part.strip()), under)


def _prose(text: str, users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    pieces = _INLINE_CODE.split(text)
    shown = [
        _plain(piece, users, channels) if number % 2 else _marked(piece, users, channels)
        for number, piece in enumerate(pieces)
    ]
    return "".join(shown)


def _marked(text: str, users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    text = _STRIKE.sub(r"~~\1~~", _ITALIC.sub(r"*\1*", _BOLD.sub(r"**\1**", text)))
    return _plain(_BULLET.sub("- ", text), users, channels)


def _plain(text: str, users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    """Replaces references by names, and unescapes HTML entities such as `&lt;`."""
    return html.unescape(_REFERENCE.sub(lambda match: _named(match, users, channels), text))


def _named(match: re.Match[str], users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    sign, value, label = match[1], match[2], (match[3] or "").strip()
    if sign == "@":
        return "@" + (users.get(value) or label or value)
    if sign == "#":
        return "#" + (channels.get(value) or label or value)
    if sign == "!":
        return label or "@" + value.partition("^")[0]
    return f"{label} ({value})" if label and label != value else value


MAX_FILE_BYTES = 64 * 1024 * 1024
"""Unpacked size of one file: a day of a channel, or the list of users."""

MAX_RATIO = 500
"""Unpacked bytes per packed byte. JSON packs to a tenth or so, a zip bomb to a thousandth."""

MAX_FILES = 2_000_000


class Archive(ABC):
    """JSON files of an export by their paths."""

    @abstractmethod
    def names(self) -> Iterator[str]:
        """Paths of all JSON files, such as `general/2024-01-02.json`."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Returns a file's bytes, None if there is none. Raises `SourceRefusedError` for one that is too large."""

    def json(self, name: str) -> Any:
        """Returns a file's content, None if there is none. Raises `SourceShapeError` if it is not JSON."""
        data = self.read(name)
        if data is None:
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as exc:
            raise SourceShapeError(f"{name} of the export is not JSON: {str(exc)[:100]}") from exc


class FolderArchive(Archive):
    """An unpacked export."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> Iterator[str]:
        for file in self._root.glob("*/*.json"):
            yield file.relative_to(self._root).as_posix()

    def read(self, name: str) -> bytes | None:
        file = self._root / name
        if not file.is_file() or file.is_symlink():
            return None
        if file.stat().st_size > MAX_FILE_BYTES:
            raise SourceRefusedError(f"{name} of the export is larger than {MAX_FILE_BYTES:,} bytes")
        return file.read_bytes()


class ZipArchive(Archive):
    """An export as downloaded. Nothing is unpacked to disk."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._zip = file
        if len(file.filelist) > MAX_FILES:
            raise SourceRefusedError(f"the export has more than {MAX_FILES:,} files")

    def names(self) -> Iterator[str]:
        for info in self._zip.filelist:
            if info.filename.count("/") == 1 and info.filename.endswith(".json"):
                yield info.filename

    def read(self, name: str) -> bytes | None:
        try:
            info = self._zip.getinfo(name)
        except KeyError:
            return None
        if info.file_size > max(MAX_RATIO * info.compress_size, 64 * 1024) or info.file_size > MAX_FILE_BYTES:
            raise SourceRefusedError(
                f"{name} of the export unpacks to {info.file_size:,} bytes, too much for an export"
            )
        with self._zip.open(info) as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise SourceRefusedError(f"{name} of the export is larger than {MAX_FILE_BYTES:,} bytes")
        return data


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Opens the export at a path. Raises `SourceRefusedError` if there is none, `SourceShapeError` for a damaged one."""
    try:
        if path.is_dir():
            yield FolderArchive(path)
            return
        with zipfile.ZipFile(path) as file:
            yield ZipArchive(file)
    except FileNotFoundError as exc:
        raise SourceRefusedError(f"there is no export {path}") from exc
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as exc:  # damaged, of another method, or encrypted
        raise SourceShapeError(f"{path.name} is not a readable zip file: {exc}") from exc
    except OSError as exc:
        raise SourceUnavailableError(f"{exc.filename or path}: {exc.strerror}") from exc


PAGE_DOCUMENTS = 100
MAX_OPEN_THREADS = 20_000
"""Threads that are held at a time; of more, the oldest is completed without its later replies."""

_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})\.json\Z")
_LISTS = ("channels.json", "groups.json")
_USERS = ("users.json", "org_users.json")
_LEFT_OUT = frozenset(
    f"{parent}_{event}"
    for parent in ("channel", "group")
    for event in ("join", "leave", "topic", "purpose", "name", "archive", "unarchive")
) | {"pinned_item", "tombstone", "message_deleted", "bot_add", "bot_remove"}
"""Message kinds without content; a thread whose first message was deleted has a `tombstone`."""


class SlackExportOptions(Options, frozen=True):
    """Location and selection of an export."""

    path: Annotated[str, about("The zip file, or the unpacked folder.")]
    channels: Annotated[Texts, about("Names of channels; none means all of the public and private ones.")] = ()
    workspace_url: Annotated[
        str, about("The workspace's address, such as https://example.slack.com, for links to messages.")
    ] = ""


class _Profile(Shape, frozen=True):
    display_name: Loose[str] = ""
    real_name: Loose[str] = ""
    name: Loose[str] = ""


class _Member(Shape, frozen=True):
    """A person or a channel."""

    id: Loose[str] = ""
    name: Loose[str] = ""
    real_name: Loose[str] = ""
    profile: Loose[_Profile] = _Profile()


class _Attachment(Shape, frozen=True):
    text: Loose[str] = ""
    fallback: Loose[str] = ""


class _Message(Shape, frozen=True):
    ts: Filled
    subtype: Loose[str] = ""
    thread_ts: Loose[str] = ""
    reply_count: Any = None
    latest_reply: Loose[str] = ""
    edited: Any = None
    text: Loose[str] = ""
    user: Loose[str] = ""
    username: Loose[str] = ""
    user_profile: Loose[_Profile] = _Profile()
    files: tuple[Loose[Named], ...] = ()
    attachments: tuple[Loose[_Attachment], ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.subtype in _LEFT_OUT


class _Kind(Shape, frozen=True):
    subtype: Loose[str] = ""
    thread_ts: Loose[str] = ""


@dataclass(frozen=True, slots=True)
class _Directory:
    """Names of people and channels by id, and ids of channels by name."""

    users: Mapping[str, str]
    channels: Mapping[str, str]
    ids: Mapping[str, str]


@dataclass(slots=True)
class _Thread:
    """A thread that is read. `until` is the day of its last reply, "" if that isn't known."""

    until: str = ""
    messages: list[_Message] = field(default_factory=list)


class SlackExportConnector(Connector[SlackExportOptions]):
    """Reads the whole export in every pull; a newer export replaces the older one."""

    about = "threads and days of a Slack export on this machine"
    local = True

    def __init__(self, definition: SourceDefinition, options: SlackExportOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        self._path = self.local_path(options.path)

    def probe(self) -> None:
        with open_archive(self._path) as archive:
            self._directory(archive)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        with open_archive(self._path) as archive:
            directory = self._directory(archive)
            days = self._days(archive, directory)
            done = str(request.cursor.get("done", ""))
            for channel in sorted(days):
                if channel > done:
                    reader = _Reader(archive, directory, channel, self.options.workspace_url)
                    yield from reader.pages(days[channel], done)
        yield Page(complete=True)

    def _directory(self, archive: Archive) -> _Directory:
        listed = [record for name in _LISTS for record in self._list(archive, name)]
        if not listed:
            raise SourceShapeError(f"{self.name}: expected channels.json with channels in the export {self._path.name}")
        channels = {each.id: each.name for each in listed}
        users = {each.id: _person(each) for name in _USERS for each in self._list(archive, name)}
        if "" in channels or "" in channels.values():
            raise SourceShapeError(f"{self.name}: expected id and name of each channel in channels.json")
        return _Directory(users, channels, {name: key for key, name in channels.items()})

    def _list(self, archive: Archive, name: str) -> list[_Member]:
        found = archive.json(name)
        if found is not None and not isinstance(found, list):
            raise SourceShapeError(f"{self.name}: expected a list in {name} of the export")
        return [shaped(_Member, each if isinstance(each, dict) else {}) for each in found or ()]

    def _days(self, archive: Archive, directory: _Directory) -> dict[str, list[str]]:
        """The days of each channel, in order."""
        wanted = set(self.options.channels) or set(directory.ids)
        missing = wanted - set(directory.ids)
        if missing:
            raise SourceShapeError(f"{self.name}: the export has no channel {', '.join(sorted(missing))}")
        days: dict[str, list[str]] = {}
        for name in archive.names():
            channel, _, file = name.partition("/")
            day = _DAY.match(file)
            if channel in wanted and day:
                days.setdefault(channel, []).append(day[1])
        return {channel: sorted(found) for channel, found in days.items()}


class _Reader:
    """Reads the messages of one channel."""

    def __init__(self, archive: Archive, directory: _Directory, channel: str, workspace_url: str) -> None:
        self._archive = archive
        self._directory = directory
        self._channel = channel
        self._url = workspace_url.rstrip("/")
        self._open: dict[str, _Thread] = {}
        self._early: set[str] = set()
        self._batch = Batch()

    def pages(self, days: list[str], done: str) -> Iterator[Page]:
        """Yields pages of the channel; `done` is the channel before. An interrupted pull restarts a channel: a cursor
        can't hold which of its threads were completed."""
        for number, day in enumerate(days):
            self._read_day(day)
            following = days[number + 1] if number + 1 < len(days) else ""
            for key in [key for key, thread in self._open.items() if thread.until and thread.until < following]:
                self._close(key)
            while len(self._open) > MAX_OPEN_THREADS:
                self._early.add(oldest := next(iter(self._open)))
                self._close(oldest)
            if len(self._batch.documents) >= PAGE_DOCUMENTS:
                yield self._batch.page({"done": done})
        for key in list(self._open):
            self._close(key)
        yield self._batch.page({"done": self._channel})

    def _read_day(self, day: str) -> None:
        name = f"{self._channel}/{day}.json"
        records = self._archive.json(name)
        if not isinstance(records, list):
            raise SourceShapeError(f"expected a list of messages in {name} of the export")
        alone: list[_Message] = []
        refused: list[str] = []
        for record in records:
            try:
                kind = shaped(_Kind, record if isinstance(record, dict) else {})
                if kind.subtype not in _LEFT_OUT or kind.thread_ts:
                    self._sort(odd(_Message, record), alone)
            except OddRecordError as exc:
                refused.append(str(exc))
        if refused and len(refused) == len(records) and len(refused) > 1:
            raise SourceShapeError(f"{name} of the export: no message has the expected format; the first: {refused[0]}")
        for reason in refused:
            self._batch.refuse(f"{self._channel}/{day} message", reason)
        if alone:
            self._add(f"{self._channel}/{day}", f"#{self._channel} on {day}", alone)

    def _sort(self, record: _Message, alone: list[_Message]) -> None:
        """Adds a message to its thread, or to the messages outside of threads. A reply that is also shown in the channel
        is kept once."""
        ts, thread = record.ts, record.thread_ts
        _moment(ts)
        if not thread or (thread == ts and not record.reply_count):
            alone.append(record)
            return
        if thread in self._early:
            return
        held = self._open.setdefault(thread, _Thread())
        held.messages.append(record)
        if thread == ts and record.latest_reply:
            held.until = _moment(record.latest_reply)[:10]

    def _close(self, ts: str) -> None:
        thread = self._open.pop(ts)
        messages = sorted(thread.messages, key=lambda each: float(each.ts))
        first = one_line(self._text(messages[0]))[:80] or "a thread"
        self._add(f"{self._channel}/thread-{ts}", f"#{self._channel}: {first}", messages)

    # -- documents

    def _add(self, key: str, title: str, messages: list[_Message]) -> None:
        written = {each.ts: each for each in messages if not each.is_empty}
        last = max(written or {each.ts: each for each in messages}, key=float)
        first = messages[0].ts
        metadata: dict[str, Any] = {
            "title": title,
            "tags": ["slack", self._channel],
            "created_at": _moment(first),
            "last_updated": _moment(last),
            "author": self._author(messages[0]),
        }
        if self._url:
            channel = self._directory.ids[self._channel]
            metadata["source_uri"] = f"{self._url}/archives/{channel}/p{first.replace('.', '')}"
        content = joined([f"# {title}", *map(self._message, written.values())])
        self._batch.add(SourceDocument(key, content, metadata))

    def _message(self, message: _Message) -> str:
        when = _moment(message.ts)
        edited = ", edited" if message.edited else ""
        files = [f"[file: {one_line(each.name)}]" for each in message.files]
        body = "\n\n".join(part for part in [self._text(message), *files] if part.strip())
        return f"**{self._author(message)}** ({when[:10]} {when[11:16]} UTC{edited}):\n\n{body}" if body else ""

    def _text(self, message: _Message) -> str:
        texts = [message.text]
        if not message.text.strip():
            texts = [each.text or each.fallback for each in message.attachments]
        return slack_markdown("\n\n".join(filter(None, texts)), self._directory.users, self._directory.channels, 2)

    def _author(self, message: _Message) -> str:
        profile = message.user_profile.real_name or message.user_profile.name
        name = self._directory.users.get(message.user) or profile or message.username
        return one_line(name or message.user or "unknown")


def _person(user: _Member) -> str:
    profile = user.profile.display_name or user.profile.real_name
    return one_line(profile or user.real_name or user.name)


def _moment(ts: str) -> str:
    """Converts `1704190000.000100` to ISO 8601. Raises `OddRecordError`."""
    try:
        return iso_time(datetime.fromtimestamp(float(ts), UTC).timestamp())
    except (ValueError, OverflowError, OSError) as exc:
        raise OddRecordError(f"expected seconds since the epoch at 'ts', not {ts[:40]!r}") from exc
