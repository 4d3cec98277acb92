"""The ways in that need more than the corpus: put together once for the manager of an installation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.domain.ids import stable_hash
from opx.errors import InvalidInputError
from opx.sources.schedules import checked_cron

if TYPE_CHECKING:
    from opx.domain.sources import KnowledgeSource
    from opx.ingestion.evidence import EvidenceRules
    from opx.services import Services
    from opx.sources.control import SourceControl

BUCKET = "s3://"
WATCHED_SHARE = 0.99
"""Of a directory that can be listed, files that are gone are gone; one that is empty is rather not mounted."""

WATCHED_EVERY = "*/15 * * * *"
"""A bucket that isn't ours sends no events: it is listed this often."""


class WaysIn:
    """Sources, evidence and webhooks of an installation."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @cached_property
    def control(self) -> SourceControl:
        from opx.sources.control import SourceControl

        return SourceControl(self._services)

    @property
    def evidence_rules(self) -> EvidenceRules:
        return self._services.evidence_rules

    @property
    def webhook_url(self) -> str:
        """Where webhooks arrive, without a path; "" for this machine."""
        return self._services.settings.webhook_url

    def register(self, source: KnowledgeSource | Mapping[str, Any], schedule: str, tier: str, category: str) -> str:
        """See `IngestionManager.register_source`."""
        common = {"category": category, "tier": tier, "schedule": schedule}
        if isinstance(source, Mapping):
            given = dict(source)
            name = given.pop("name", None)
            if not isinstance(name, str):
                raise InvalidInputError("a source needs a name, which is its id")
            return self.control.register(name, {**given, **common}).source_id
        return self._services.provide_source(source, checked_cron(schedule) if schedule else "", category)

    def subscribe(self, stream: str, category: str, pattern: Mapping[str, Any] | None) -> str:
        """See `IngestionManager.subscribe_stream`."""
        from opx.streams.control import StreamControl

        source, _, topic = stream.partition("#")
        return StreamControl(self._services).subscribe(source, category, pattern, topic=topic)

    def watch(self, path: str, category: str, pattern: str) -> str:
        """See `IngestionManager.watch_directory`."""
        given: dict[str, Any]
        source_id = f"watch-{stable_hash('watch', path, category)[:12]}"
        if path.startswith(BUCKET):
            bucket, _, prefix = path.removeprefix(BUCKET).partition("/")
            given = {"kind": "s3_prefix", "schedule": WATCHED_EVERY, "options": {"bucket": bucket, "prefix": prefix}}
        else:
            folder = Path(path).expanduser().absolute()
            if self._services.pulls is not None:
                raise InvalidInputError(f"{path}: functions can't see this machine's files; watch s3://bucket/prefix")
            given = {"kind": "directory", "schedule": "", "options": {"path": str(folder), "pattern": pattern}}
            given["max_missing_share"] = WATCHED_SHARE
        self.control.register(source_id, {**given, "category": category})
        self.control.pull(source_id)
        return source_id
