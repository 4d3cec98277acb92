"""Composes live search as configured in `knowledge.yaml`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opx.errors import SourceUnavailableError
from opx.operations.system import System
from opx.ports.sources import OpenWeb, Secrets, SourceWeb, WebClient
from opx.ports.tables import WEB_CACHE
from opx.runtime.knowledge_file import Marked, read_section
from opx_web.live.providers import (
    BRAVE_URL,
    GOOGLE,
    GOOGLE_URL,
    PROVIDERS,
    BraveWebSearch,
    CachedWebSearch,
    GoogleWebSearch,
    LimitedWebSearch,
    WebSearch,
)
from opx_web.live.service import InternetSearch

SECTION = "internet"
DEADLINE_SECONDS = 3.0
DEFAULT_CACHE_SECONDS = 3600.0
_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class InternetSettings:
    """The section `internet`. `api_key_env` names the secret with the key: on a laptop an environment variable of
    that name does. `search_engine_id` is Google's `cx`. `base_url` replaces the engine's address."""

    search_provider: str
    api_key_env: str
    cache_ttl: float = DEFAULT_CACHE_SECONDS
    search_engine_id: str = ""
    base_url: str = ""


def read_internet(path: Path | None = None) -> InternetSettings | None:
    """Reads the section of the file, None without one. Raises `KnowledgeConfigError` with file and line."""
    section = read_section(SECTION, path)
    if section is None:
        return None
    optional = ("cache_ttl", "search_engine_id", "base_url")
    found = section.fields(required=("search_provider", "api_key_env"), optional=optional)
    provider, name = found["search_provider"].text(), found["api_key_env"].text()
    if provider == "bing":
        raise found["search_provider"].error(
            f"the Bing Search APIs ended in August 2025; allowed: {', '.join(PROVIDERS)}"
        )
    if provider not in PROVIDERS:
        raise found["search_provider"].error(f"unknown search_provider {provider!r}; allowed: {', '.join(PROVIDERS)}")
    if not _SECRET_NAME.match(name):
        raise found["api_key_env"].error("api_key_env must be the name of a secret such as BRAVE_API_KEY, not the key")
    if provider == GOOGLE and "search_engine_id" not in found:
        raise section.error("Google needs search_engine_id, the id of a Programmable Search Engine")
    texts = {field: found[field].text() for field in optional[1:] if field in found}
    return InternetSettings(provider, name, _seconds(found.get("cache_ttl")), **texts)


def _seconds(entry: Marked | None) -> float:
    if entry is None:
        return DEFAULT_CACHE_SECONDS
    seconds = entry.number()
    if not 0 <= seconds <= 30 * 86_400:
        raise entry.error(f"cache_ttl is in seconds, 0 to 30 days, not {seconds:g}")
    return seconds


def internet_search(system: System) -> InternetSearch | None:
    """Live search as configured; None if it isn't."""
    installation, ports = system.installation, system.ports
    wanted = read_internet(installation.knowledge_path)
    if wanted is None:
        return None
    limited = LimitedWebSearch(
        wanted.search_provider,
        _opening(wanted, ports.secrets, installation.settings.private_hosts, ports.open_web),
        seconds=DEADLINE_SECONDS,
    )
    if not wanted.cache_ttl:
        return InternetSearch(limited)
    table, seconds = ports.tables.table(WEB_CACHE), wanted.cache_ttl

    def remembered(client_id: str) -> WebSearch:
        return CachedWebSearch(limited, table, seconds=seconds, clock=installation.clock, client_id=client_id)

    return InternetSearch(limited, remembered)


def _opening(
    wanted: InternetSettings, secrets: Secrets, hosts: tuple[str, ...], open_web: OpenWeb
) -> Callable[[], _Opened]:
    def opened() -> _Opened:
        key = secrets.get(wanted.api_key_env)
        return _Opened(wanted, key, open_web(allowed_hosts=hosts, sleep=_no_time, timeout=DEADLINE_SECONDS))

    return opened


class _Opened:
    """An engine with a separate client, for one thread."""

    def __init__(self, wanted: InternetSettings, key: str, web: SourceWeb) -> None:
        self._wanted = wanted
        self._key = key
        self._web = web

    def __enter__(self) -> WebSearch:
        return engine(self._wanted, self._web, self._key)

    def __exit__(self, *_: object) -> None:
        self._web.close()


def engine(wanted: InternetSettings, web: WebClient, key: str) -> WebSearch:
    """The configured engine."""
    if wanted.search_provider == GOOGLE:
        return GoogleWebSearch(web, key, wanted.search_engine_id, wanted.base_url or GOOGLE_URL)
    return BraveWebSearch(web, key, wanted.base_url or BRAVE_URL)


def _no_time(seconds: float) -> None:
    """Replaces the pause before a retry: the caller doesn't wait that long. Raises `SourceUnavailableError`."""
    raise SourceUnavailableError(f"the search engine asks to wait for {seconds:g} s", seconds)
