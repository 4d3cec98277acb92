"""Registers sources, directories and streams in the words of `IngestionManager`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.connectors.schedules import checked_cron
from opx.connectors.webhooks.definitions import webhook_endpoint
from opx.domain.ids import stable_hash
from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from opx.connectors.control import SourceControl
    from opx.connectors.streams.control import StreamControl
    from opx.domain.sources import KnowledgeSource, PullReport

BUCKET = "s3://"
WATCHED_SHARE = 0.99
"""Of a directory that can be listed, files that are gone are gone; one that is empty is rather not mounted."""

WATCHED_EVERY = "*/15 * * * *"
"""A bucket that isn't ours sends no events: it is listed this often."""


class ConnectedWaysIn:
    """`WaysIn` of an installation. `provide` takes a source that is an object of this process, with its schedule and its
    category, and returns its id."""

    def __init__(
        self,
        control: SourceControl,
        streams: StreamControl,
        provide: Callable[[KnowledgeSource, str, str], str],
        *,
        webhook_url: str,
    ) -> None:
        self._control = control
        self._streams = streams
        self._provide = provide
        self._webhook_url = webhook_url

    def webhook_endpoint(self, tier: str, category: str) -> str:
        """See `IngestionManager.get_webhook_endpoint`."""
        return webhook_endpoint(self._webhook_url, tier, category)

    def register(self, source: KnowledgeSource | Mapping[str, Any], schedule: str, tier: str, category: str) -> str:
        """See `IngestionManager.register_source`."""
        common = {"category": category, "tier": tier, "schedule": schedule}
        if isinstance(source, Mapping):
            given = dict(source)
            name = given.pop("name", None)
            if not isinstance(name, str):
                raise InvalidInputError("a source needs a name, which is its id")
            return self._control.register(name, {**given, **common}).source_id
        return self._provide(source, checked_cron(schedule) if schedule else "", category)

    def pull(self, source_id: str) -> PullReport | None:
        return self._control.pull(source_id)

    def subscribe(self, stream: str, category: str, pattern: Mapping[str, Any] | None) -> str:
        """See `IngestionManager.subscribe_stream`."""
        source, _, topic = stream.partition("#")
        return self._streams.subscribe(source, category, pattern, topic=topic)

    def watch(self, path: str, category: str, pattern: str) -> str:
        """See `IngestionManager.watch_directory`."""
        given: dict[str, Any]
        source_id = f"watch-{stable_hash('watch', path, category)[:12]}"
        if path.startswith(BUCKET):
            bucket, _, prefix = path.removeprefix(BUCKET).partition("/")
            given = {"kind": "s3_prefix", "schedule": WATCHED_EVERY, "options": {"bucket": bucket, "prefix": prefix}}
        else:
            folder = Path(path).expanduser().absolute()
            if self._control.pulls_elsewhere:
                raise InvalidInputError(f"{path}: functions can't see this machine's files; watch s3://bucket/prefix")
            given = {"kind": "directory", "schedule": "", "options": {"path": str(folder), "pattern": pattern}}
            given["max_missing_share"] = WATCHED_SHARE
        self._control.register(source_id, {**given, "category": category})
        self._control.pull(source_id)
        return source_id
