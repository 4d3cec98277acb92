"""Makes HTTP connections with time-outs, through the machine's proxy, and translates their errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Timeout
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from opx.errors import OpxError, StoreUnavailableError

CONNECT_SECONDS = 5.0
READ_SECONDS = 35.0
"""API Gateway times out after 30 seconds."""


class Connections:
    """Pooled connections to any hosts. `certificates` is a CA file, "" for Python's default."""

    def __init__(
        self, *, certificates: str = "", connect_seconds: float = CONNECT_SECONDS, read_seconds: float = READ_SECONDS
    ) -> None:
        self._certificates = certificates
        self._timeout = Timeout(connect=connect_seconds, read=read_seconds)
        self._direct = self._pool("")
        self._through: dict[str, PoolManager] = {}

    def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | BinaryIO | None
    ) -> BaseHTTPResponse:
        """Sends one request, without retry or redirect, and reads its reply. Raises `StoreUnavailableError` if none
        comes, and `OpxError` if the server's certificate is not trusted."""
        host = urlsplit(url).netloc
        try:
            return self._pool_for(url).request(
                method, url, headers=headers, body=body, retries=False, redirect=False, timeout=self._timeout
            )
        except SSLError as exc:
            raise OpxError(
                f"no trusted connection to {host}: {exc} (behind an intercepting proxy: AWS_CA_BUNDLE)"
            ) from exc
        except NewConnectionError as exc:
            raise StoreUnavailableError(f"no connection to {host}: {exc}") from exc
        except (ConnectTimeoutError, ReadTimeoutError) as exc:
            raise StoreUnavailableError(f"{host} took too long") from exc
        except ProxyError as exc:
            raise StoreUnavailableError(f"the proxy to {host} doesn't answer: {exc.original_error}") from exc
        except HTTPError as exc:
            raise StoreUnavailableError(f"the connection to {host} broke: {exc}") from exc

    def close(self) -> None:
        """Closes all connections."""
        for pool in (self._direct, *self._through.values()):
            pool.clear()

    def _pool_for(self, url: str) -> PoolManager:
        parts = urlsplit(url)
        proxy = getproxies().get(parts.scheme, "")
        if not proxy or proxy_bypass(parts.netloc):
            return self._direct
        if proxy not in self._through:
            self._through[proxy] = self._pool(proxy)
        return self._through[proxy]

    def _pool(self, proxy: str) -> PoolManager:
        options = {"maxsize": 8, **({"ca_certs": self._certificates} if self._certificates else {})}
        if proxy:
            return ProxyManager(proxy if "://" in proxy else f"http://{proxy}", **options)  # type: ignore[arg-type]
        return PoolManager(**options)  # type: ignore[arg-type]
