"""Restricts outgoing requests to public addresses and the hosts that the operator allowed."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from urllib3.exceptions import LocationParseError
from urllib3.util import Url, parse_url

from opx.errors import ForbiddenAddressError, SourceUnavailableError

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""Resolves a host and port to addresses, as strings. Raises `OSError`."""

PORTS = {"http": 80, "https": 443}
_NOT_PUBLIC = tuple(
    map(
        ip_network,
        (
            "100.64.0.0/10",  # shared by a carrier's customers; also some clouds' metadata
            "168.63.129.16/32",  # Azure's own services for its machines
            "192.0.0.0/24",  # protocols of the IETF; also a cloud's metadata
            "192.88.99.0/24",  # relays of 6to4
            "::/96",  # IPv4 in IPv6, as it was first
            "64:ff9b:1::/48",  # NAT64 within a network
            "2001::/23",  # protocols of the IETF
            "3fff::/20",  # documentation
            "5f00::/16",  # segment routing
            "fec0::/10",  # site-local
        ),
    )
)
"""Networks refused besides those of `ipaddress`, whose registries differ between versions of Python."""

_METADATA = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",  # link-local: metadata and credentials of AWS, Azure, Google and others
            "fe80::/10",
            "fd00:ec2::/32",  # AWS's own services for its machines
            "100.100.100.200/32",  # Alibaba's metadata
            "168.63.129.16/32",
            "192.0.0.192/32",  # Oracle's metadata
        ),
    )
)
"""Networks of services that give a machine its credentials: a host that is allowed by its name may not lead there."""

_SCHEME = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?")
_NAT64 = ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL. `path` has the query; `host` is in lower case, without brackets."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def netloc(self) -> str:
        """Host and port in the form of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}"

    @property
    def shown(self) -> str:
        """The URL without its query, which may contain a key."""
        return self.url.partition("?")[0]


def target_of(url: str) -> Target:
    """Parses and normalises a URL, without its fragment. Raises `ForbiddenAddressError` for another scheme than http and
    https, for credentials in it, and for an invalid URL."""
    try:
        parts = parse_url(url.strip())
    except LocationParseError as exc:
        raise ForbiddenAddressError(f"not an address on the web: {shown_address(url)!r}") from exc
    if parts.scheme not in PORTS or not parts.host or any(ord(letter) < 32 for letter in url.strip()):
        raise ForbiddenAddressError(f"only http:// and https:// addresses can be fetched, not {shown_address(url)!r}")
    if parts.auth:
        raise ForbiddenAddressError(f"credentials in the address of {parts.host}: keep them as a secret of the source")
    host = parts.host.strip("[]").rstrip(".").lower()
    path = Url(path=parts.path, query=parts.query).request_uri
    return Target(parts.scheme, host, parts.port or PORTS[parts.scheme], path)


def shown_address(text: str) -> str:
    """A URL, also an invalid one, without the parts that may contain a secret, for messages."""
    start, slashes, rest = text.strip().partition("//")
    scheme, rest = (start + slashes, rest) if slashes and _SCHEME.fullmatch(start) else ("", text.strip())
    bare, *others = re.split(r"[?#]", rest, maxsplit=1)
    if others and "@" in others[0]:  # a query has it, or it is a password's question mark
        return f"{scheme}..."
    return (scheme + bare.rpartition("@")[2])[:200]


class AddressBook:
    """Resolves hosts to permitted addresses. `allowed`: hosts, or host:port, that needn't be public, and may have any port.
    An address of `_METADATA` is permitted only if it is listed itself, whatever host resolves to it."""

    def __init__(self, *, allowed: Iterable[str] = (), resolve: Resolve | None = None) -> None:
        self._allowed = frozenset(each.strip().rstrip(".").lower() for each in allowed)
        self._resolve = resolve or _resolve

    def is_allowed(self, target: Target) -> bool:
        """True if the operator allowed this host, whatever its address is."""
        host = f"[{target.host}]" if ":" in target.host else target.host
        return not self._allowed.isdisjoint({target.host, host, f"{host}:{target.port}"})

    def addresses_of(self, host: str, port: int) -> tuple[str, ...]:
        """As `addresses`, for a service that isn't HTTP, at any port."""
        return self._permitted(Target("https", host.strip("[]").rstrip(".").lower(), port, "/"))

    def addresses(self, target: Target) -> tuple[str, ...]:
        """Resolves the target to the addresses that may be connected to. Raises `ForbiddenAddressError` if one of them is
        not public, or the port isn't one of the web's, and `SourceUnavailableError` if there are none."""
        if target.port not in PORTS.values() and not self.is_allowed(target):
            raise ForbiddenAddressError(
                f"port {target.port} of {target.host} is not one of the web's (80, 443), so nothing is fetched from "
                f"{target.shown}; if that is meant, list {target.netloc} in OPX_ALLOWED_HOSTS (on AWS: -c allowed_hosts=...)"
            )
        return self._permitted(target)

    def _permitted(self, target: Target) -> tuple[str, ...]:
        try:
            found = tuple(dict.fromkeys(self._resolve(target.host, target.port)))
        except (OSError, UnicodeError) as exc:
            raise SourceUnavailableError(f"no address is known for {target.host}: {exc}") from exc
        if not found:
            raise SourceUnavailableError(f"no address is known for {target.host}")
        if secret := [one for one in found if _is_metadata(one) and one not in self._allowed]:
            raise ForbiddenAddressError(
                f"{target.host} leads to {secret[0]}, where machines get their credentials, so nothing is fetched from "
                f"{target.shown}; if that is meant, list {secret[0]} in OPX_ALLOWED_HOSTS (on AWS: -c allowed_hosts=...)"
            )
        if not self.is_allowed(target) and not all(map(is_public, found)):
            raise ForbiddenAddressError(
                f"{target.host} is not on the public internet, so nothing is fetched from {target.shown}; "
                "if that is meant, list the host in OPX_ALLOWED_HOSTS (on AWS: -c allowed_hosts=...)"
            )
        return found


def is_public(text: str) -> bool:
    """True if an address is globally reachable, as are all IPv4 addresses embedded in it."""
    if "%" in text:
        return False
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        inner = _embedded(address)
        if inner is not None:
            return all(map(_is_public, inner))
    return _is_public(address)


def _is_metadata(text: str) -> bool:
    """True if an address, or an IPv4 address embedded in it, is of `_METADATA`."""
    address = ip_address(text.partition("%")[0])
    inner = (_embedded(address) if isinstance(address, IPv6Address) else None) or ()
    return any(one in network for one in (address, *inner) for network in _METADATA if network.version == one.version)


def _embedded(address: IPv6Address) -> tuple[Address, ...] | None:
    """The IPv4 addresses that an IPv6 address maps or tunnels to."""
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    if address.sixtofour:
        return (address.sixtofour,)
    if address.teredo:
        return address.teredo
    return (IPv4Address(int(address) & 0xFFFFFFFF),) if address in _NAT64 else None


def _is_public(address: Address) -> bool:
    special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    listed = any(address in network for network in _NOT_PUBLIC if network.version == address.version)
    return address.is_global and not special and not listed


def _resolve(host: str, port: int) -> Sequence[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
