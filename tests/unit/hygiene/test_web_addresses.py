from __future__ import annotations

import pytest

from opx.connectors.registry import checked_options
from opx.domain.knowledge import Tier
from opx.domain.sources import SourceDefinition
from opx.errors import ForbiddenAddressError, InvalidInputError, SourceUnavailableError
from opx.hygiene.addresses import AddressBook, is_public, target_of

NOT_PUBLIC = """
0.0.0.0 10.1.2.3 100.64.0.1 100.100.100.200 127.0.0.1 127.8.8.8 168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255
192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.1.1.1 240.0.0.1
255.255.255.255 :: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1
64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 100::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: 2001:0:7f00:1::1 2001:10::1
3fff::1 5f00::1 fc00::1 fd00:ec2::254 fd20:ce::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1
"""
PUBLIC = "8.8.8.8 93.184.216.34 2606:4700::1111 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1"


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_addresses_outside_of_the_public_internet_are_recognised(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_addresses_of_the_public_internet_are_recognised(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://e.org/x",
        "file:///etc/passwd",
        "gopher://e.org",
        "//e.org/x",
        "e.org",
        "",
        "http://",
        "http:///x",
        "http://e.org:99999/",
        "http://e.org:x/",
        "http://[::1/",
        "javascript:alert(1)",
        "http://e\n.org/",
        "http://e.org/\r\nHost: internal",
    ],
)
def test_malformed_or_non_web_address_is_refused(url: str) -> None:
    with pytest.raises(ForbiddenAddressError):
        target_of(url)


def test_credentials_in_an_address_are_refused_without_showing_them() -> None:
    with pytest.raises(ForbiddenAddressError) as refusal:
        target_of("https://user:hunter2@e.org/x")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ftp://ann:hunter2@e.org/x?key=hunter2", "ftp://e.org/x"),
        ("ftp://ann:hun@ter2@e.org/x#hunter2", "ftp://e.org/x"),
        ("ftp://ann:a?hunter2@e.org/x", "ftp://..."),
        ("ftp://ann:a#hunter2@e.org/x", "ftp://..."),
        ("ann:hunter2@e.org/x", "e.org/x"),
        ("//ann:hunter2@e.org/x", "//e.org/x"),
        ("ann:hunter2//@e.org/x", "e.org/x"),
        ("http://ann:hunter2@[::1/?key=hunter2", "http://[::1/"),
        ("http://e.org:x/?key=hunter2", "http://e.org:x/"),
        ("http://ann:hunter2@e.org:99999/?mail=a@b", "http://..."),
    ],
)
def test_refused_address_is_shown_without_credentials_and_query(url: str, shown: str) -> None:
    with pytest.raises(ForbiddenAddressError) as refusal:
        target_of(url)
    assert repr(shown) in str(refusal.value)
    assert "hun" not in str(refusal.value)
    assert "ter2" not in str(refusal.value)


@pytest.mark.parametrize(("kind", "option"), [("crawl", "start"), ("crawl", "sitemaps"), ("feed", "urls")])
def test_options_that_are_refused_do_not_show_them_either(kind: str, option: str) -> None:
    definition = SourceDefinition(
        "any", kind, "cloud", Tier.SPECIALIZED, options={option: ["https://ann:hunter2@e.org/x?key=hunter2"]}
    )
    with pytest.raises(InvalidInputError, match=r"https://e\.org/x") as refusal:
        checked_options(definition)
    assert "hunter2" not in str(refusal.value)


def test_error_for_a_private_host_names_the_setting_that_allows_it() -> None:
    with pytest.raises(ForbiddenAddressError, match=r"OPX_ALLOWED_HOSTS \(on AWS: -c allowed_hosts"):
        book("10.0.0.1").addresses(target_of("http://e.org/"))


def test_addresses_are_brought_into_one_form() -> None:
    assert target_of("HTTP://E.org.:80/a/../b c?x=1#top").url == "http://e.org/b%20c?x=1"


def test_a_query_is_not_shown_as_it_may_have_a_key_in_it() -> None:
    assert target_of("https://e.org/x?key=secret").shown == "https://e.org/x"


def book(*addresses: str, allowed: tuple[str, ...] = ()) -> AddressBook:
    return AddressBook(allowed=allowed, resolve=lambda host, port: addresses)


def test_a_host_at_public_addresses_is_allowed() -> None:
    assert book("8.8.8.8", "2606:4700::1111").addresses(target_of("http://e.org/")) == ("8.8.8.8", "2606:4700::1111")


def test_a_host_with_one_private_address_among_public_ones_is_refused() -> None:
    with pytest.raises(ForbiddenAddressError, match=r"e\.org is not on the public internet"):
        book("8.8.8.8", "10.0.0.1").addresses(target_of("http://e.org/"))


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "localhost"])
def test_other_ways_to_write_the_own_machine_do_not_get_around_the_check(host: str) -> None:
    with pytest.raises(ForbiddenAddressError):
        AddressBook().addresses(target_of(f"http://{host}/"))


@pytest.mark.parametrize("allowed", ["wiki.local", "WIKI.local.", "wiki.local:8080"])
def test_an_allowed_host_may_be_at_a_private_address(allowed: str) -> None:
    assert book("10.0.0.1", allowed=(allowed,)).addresses(target_of("http://Wiki.local:8080/")) == ("10.0.0.1",)


def test_an_allowed_host_is_allowed_at_its_port_alone() -> None:
    with pytest.raises(ForbiddenAddressError):
        book("10.0.0.1", allowed=("wiki.local:8080",)).addresses(target_of("http://wiki.local:22/"))


def test_a_host_without_an_address_may_have_one_later() -> None:
    with pytest.raises(SourceUnavailableError, match=r"no address is known for e\.org"):
        book().addresses(target_of("http://e.org/"))


METADATA = (
    "169.254.169.254",
    "169.254.170.2",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "100.100.100.200",
    "fe80::1%eth0",
)


@pytest.mark.parametrize("address", METADATA)
def test_an_allowed_host_may_not_lead_to_where_machines_get_their_credentials(address: str) -> None:
    with pytest.raises(ForbiddenAddressError, match="where machines get their credentials"):
        book(address, allowed=("wiki.local",)).addresses(target_of("http://wiki.local/"))
    with pytest.raises(ForbiddenAddressError, match="where machines get their credentials"):
        book(address, allowed=("mail.local",)).addresses_of("mail.local", 993)


def test_such_an_address_is_permitted_if_it_is_listed_itself() -> None:
    one = "169.254.169.254"
    assert book(one, allowed=(one,)).addresses(target_of(f"http://{one}/")) == (one,)


@pytest.mark.parametrize("port", [22, 25, 6379, 8080, 8443])
def test_of_public_hosts_only_the_webs_ports_are_permitted(port: int) -> None:
    with pytest.raises(ForbiddenAddressError, match=f"list e.org:{port} in OPX_ALLOWED_HOSTS"):
        book("8.8.8.8").addresses(target_of(f"http://e.org:{port}/"))
    assert book("8.8.8.8", allowed=(f"e.org:{port}",)).addresses(target_of(f"http://e.org:{port}/")) == ("8.8.8.8",)
    assert book("8.8.8.8").addresses_of("e.org", port) == ("8.8.8.8",)  # mail and git have ports of their own


@pytest.mark.parametrize("url", ["http://e.org:443/", "https://e.org:80/", "https://e.org/"])
def test_either_of_the_webs_ports_is_permitted_by_either_scheme(url: str) -> None:
    assert book("8.8.8.8").addresses(target_of(url)) == ("8.8.8.8",)
