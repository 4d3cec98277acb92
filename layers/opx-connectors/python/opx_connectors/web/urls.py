"""Normalises addresses of pages, decides which belong to a crawl, and maps replies to file extensions."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from opx.domain.ids import stable_hash
from opx.errors import ForbiddenAddressError
from opx.formats.registry import is_known
from opx.hygiene.addresses import target_of
from opx.ports.sources import WebReply

MAX_URL = 2000
MAX_KEY = 400
_TRACKING = re.compile(
    r"(?:utm_\w+|gclid|dclid|fbclid|msclkid|yclid|igshid|mc_[ce]id|_hsenc|_hsmi|_ga|_gl|ref_src|trk|trkcampaign|sc_\w+"
    r"|phpsessid|jsessionid|sessionid)\Z",
    re.IGNORECASE,
)
_SESSION = re.compile(r";jsessionid=[^/?#]*", re.IGNORECASE)
_HTML = (".html", ".htm", ".xhtml")
_PROGRAMS = (".php", ".asp", ".aspx", ".jsp", ".do", ".cgi", ".pl", ".py", ".cfm")
_NEVER_PAGES = ("image", "audio", "video", "font")
_NO_PAGES = frozenset(
    (".css", ".js", ".mjs", ".map", ".zip", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".tar", ".whl", ".jar", ".exe")
) | frozenset(
    (".msi", ".dmg", ".pkg", ".deb", ".rpm", ".iso", ".img", ".bin", ".ico", ".woff", ".woff2", ".rss", ".atom")
)


def page_url(base: str, reference: str) -> str:
    """Resolves a reference to the address that is requested: without fragment, tracking parameters and session ids, other
    parameters in order. "" if it is not an address on the web."""
    try:
        return _normalised(urljoin(base, _SESSION.sub("", reference.strip())))
    except ValueError:
        return ""


@lru_cache(maxsize=8192)
def _normalised(url: str) -> str:
    """Normalises an address. Cached, as the pages of a site have most of their links in common."""
    if not url.lower().startswith(("http://", "https://")) or len(url) > MAX_URL:
        return ""
    try:
        target = target_of(url)
    except ForbiddenAddressError:
        return ""
    address, mark, query = target.url.partition("?")
    if not mark:
        return target.url
    kept = sorted(pair for pair in parse_qsl(query, keep_blank_values=True) if not _TRACKING.match(pair[0]))
    return f"{address}?{urlencode(kept)}" if kept else address


def identity(url: str) -> str:
    """Common form of a page's addresses: without scheme, and without a slash at the end."""
    rest = url.partition("://")[2]
    path, mark, query = rest.partition("?")
    return path.rstrip("/") + mark + query


def page_key(url: str) -> str:
    """Key of a page's document, which is Markdown; `.md` is added if it ends like a file of another format."""
    key = identity(url)
    suffix = PurePosixPath(key).suffix.lower()
    return _bounded(key, ".md" if is_known(suffix) and suffix != ".md" else "")


def file_key(url: str, extension: str) -> str:
    """Key of a file's document, with the extension of its format."""
    key = identity(url)
    return _bounded(key, "" if PurePosixPath(key).suffix.lower() == extension else extension)


def _bounded(key: str, extension: str) -> str:
    if len(key) + len(extension) <= MAX_KEY:
        return key + extension
    return f"{key[: MAX_KEY - 80]}-{stable_hash('page', key)[:16]}{extension or PurePosixPath(key).suffix[:10]}"


def may_be_document(url: str) -> bool:
    """True if the address's extension is that of a page or of a supported file, not of a picture or an archive."""
    return _is_read(PurePosixPath(urlsplit(url).path).suffix.lower())


@lru_cache(maxsize=256)
def _is_read(suffix: str) -> bool:
    kind = (mimetypes.guess_type(f"page{suffix}")[0] or "").partition("/")[0]
    if kind in _NEVER_PAGES or suffix in _NO_PAGES:
        return False
    return not suffix or suffix in _HTML or is_known(suffix) or kind in ("", "text") or suffix in _PROGRAMS


@dataclass(frozen=True, slots=True)
class CrawlScope:
    """The addresses that belong to a crawl: those of its hosts whose path `include` matches (all, if it is empty) and
    `exclude` doesn't."""

    hosts: frozenset[str]
    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]

    def has(self, url: str) -> bool:
        """True if the address belongs to the crawl."""
        return self.has_host(url) and self.has_path(url)

    def has_host(self, url: str) -> bool:
        """True if the host belongs to the crawl."""
        return host_of(url) in self.hosts

    def has_path(self, url: str) -> bool:
        parts = urlsplit(url)
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        if any(pattern.match(path) for pattern in self.exclude):
            return False
        return not self.include or any(pattern.match(path) for pattern in self.include)


def crawl_scope(
    seeds: Iterable[str], hosts: Iterable[str], include: Sequence[str], exclude: Sequence[str]
) -> CrawlScope:
    """Returns the scope of a crawl from these addresses. Patterns are those of robots.txt (RFC 9309): the beginning of
    path and query, with `*` for anything and `$` for the end."""
    known = {host_of(url) for url in seeds} | {host.lower().removeprefix("www.") for host in hosts}
    return CrawlScope(frozenset(known), tuple(map(_pattern, include)), tuple(map(_pattern, exclude)))


def host_of(url: str) -> str:
    """Host and port, without `www.`, which is the same site. "" if it is not an address."""
    try:
        return urlsplit(url).netloc.lower().removeprefix("www.")
    except ValueError:
        return ""


def _pattern(text: str) -> re.Pattern[str]:
    path = text if text.startswith(("/", "*")) else "/" + text
    end = r"\Z" if path.endswith("$") else ""
    return re.compile(".*".join(map(re.escape, path.removesuffix("$").split("*"))) + end)


HTML = ".html"
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_EXTENSIONS = {
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/x-rst": ".rst",
    "application/rtf": ".rtf",
    "application/epub+zip": ".epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.oasis.opendocument.text": ".odt",
}
_RECORDS = (".json", ".jsonl", ".ndjson")
"""Formats that are read through a category's mapping; on web sites such files are data of scripts."""


def extension_of(reply: WebReply) -> str:
    """Returns `.html` for a page, the extension of a file of a supported format, or "" for anything else."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    suffix = PurePosixPath(urlsplit(reply.url).path).suffix.lower()
    if kind in _HTML_TYPES or (not kind and reply.body.lstrip()[:1] == b"<"):
        return HTML
    if suffix in _RECORDS or kind == "application/json":
        return ""
    if not may_be_document(reply.url) or kind.startswith(("image/", "audio/", "video/", "font/")):
        return ""
    if is_known(suffix) and suffix not in (HTML, ".htm", ".xhtml"):
        return suffix
    found = _EXTENSIONS.get(kind, "")
    return found if is_known(found) else ""
