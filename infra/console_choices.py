"""The choices of the console: their forms, what goes together, and what follows from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infra.configuration import Deployment
    from infra.names import Names

_DOMAIN = re.compile(r"([a-z0-9-]+(\.[a-z0-9-]+)+)?\Z")
_IN_US_EAST_1 = r"arn:[a-z0-9-]+:{}:us-east-1:\d{{12}}:{}"
_CERTIFICATE = re.compile(rf"({_IN_US_EAST_1.format('acm', 'certificate/[a-f0-9-]+')})?\Z")
_WEB_ACL = re.compile(rf"({_IN_US_EAST_1.format('wafv2', 'global/webacl/.+/.+')})?\Z")

FORMS = {
    "console_issuer": (re.compile(r"(https://[^\s?#;,]+)?\Z"), "the https address of an OIDC issuer"),
    "console_client": (re.compile(r"[^\s,;]*\Z"), "the id of a public client at the issuer"),
    "console_scopes": (
        re.compile(r"openid( [\x21\x23-\x5b\x5d-\x7e]+)*\Z"),
        "scopes that the page asks for, openid first",
    ),
    "console_groups_claim": (re.compile(r"\S*\Z"), "the name of the claim with a person's groups"),
    "console_domain": (_DOMAIN, "a domain name, such as knowledge.example.org"),
    "console_certificate": (_CERTIFICATE, "the ARN of a certificate in us-east-1, where CloudFront looks for it"),
    "console_zone": (re.compile(r"(Z[A-Z0-9]+)?\Z"), "the id of a hosted zone of Route 53"),
    "console_web_acl": (_WEB_ACL, "the ARN of a web ACL for CloudFront, which is in us-east-1"),
}
"""Patterns of values, each with a description for error messages."""

PRICE_CLASSES = ("100", "200", "all")
_PAIRS = (("console_issuer", "console_client"), ("console_domain", "console_certificate"))
_COGNITOS_GROUPS, _GROUPS = "cognito:groups", "groups"


def contradictions(chosen: Deployment) -> Iterator[str]:
    """Choices that contradict each other."""
    given = [key for key in FORMS if key != "console_scopes" and getattr(chosen, key)]
    if given and not chosen.console:
        yield f"context {given[0]} needs console=true"
    if chosen.console and chosen.api_auth == "none":
        yield "context console=true needs the functions of the HTTP API, which api_auth=none leaves out"
    for one, other in _PAIRS:
        if bool(getattr(chosen, one)) != bool(getattr(chosen, other)):
            yield f"context {one} and {other} go together: give both, or neither"
    if chosen.console_zone and not chosen.console_domain:
        yield "context console_zone needs console_domain, the name to enter there"


def groups_claim(chosen: Deployment) -> str:
    """The claim with the groups of who signed in."""
    return chosen.console_groups_claim or (_GROUPS if chosen.console_issuer else _COGNITOS_GROUPS)


def role_settings(names: Names) -> dict[str, str]:
    """Settings of the functions behind the console: groups of people are roles."""
    return {"groups_claim": groups_claim(names.deployment)} if names.deployment.console else {}


def origins(chosen: Deployment) -> list[str]:
    """Origins of pages that may send files to the corpus bucket, with its signed addresses. CloudFront's own names aren't
    known before the distribution is made."""
    if not chosen.console:
        return []
    return [f"https://{chosen.console_domain or '*.cloudfront.net'}"]
