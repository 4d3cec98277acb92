"""How far a page of the web is trusted: by the site that it is on."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class SiteKind:
    """A kind of site: the category that its pages belong to, their trust, and why."""

    name: str
    category: str
    trust: float
    reason: str


DOCUMENTATION = SiteKind(
    "documentation", "web/search", 0.80, "written by the makers; found by a stranger's engine, so below our own copy"
)
ISSUES = SiteKind("GitHub issue", "web/github_issues", 0.75, "close to the code, often with the maintainers' word")
QUESTIONS = SiteKind("Stack Exchange", "web/stack_overflow", 0.70, "voted on by many, of any age")
FORUM = SiteKind("vendor forum", "web/forums", 0.65, "the vendor reads along, but anybody answers")
OTHER = SiteKind("other site", "web/search", 0.60, "nothing is known about the site")
BLOG = SiteKind("blog", "web/blogs", 0.50, "one person's experience, checked by nobody")

_SITES: tuple[tuple[SiteKind, tuple[str, ...]], ...] = (
    (
        QUESTIONS,
        (
            "stackoverflow.com",
            "stackexchange.com",
            "serverfault.com",
            "superuser.com",
            "askubuntu.com",
            "mathoverflow.net",
        ),
    ),
    (
        FORUM,
        (
            "learn.microsoft.com/answers",
            "learn.microsoft.com/en-us/answers",
            "answers.microsoft.com",
            "techcommunity.microsoft.com",
            "repost.aws",
            "discuss.elastic.co",
            "discuss.hashicorp.com",
            "discuss.kubernetes.io",
            "forums.docker.com",
            "forum.gitlab.com",
            "community.atlassian.com",
            "community.broadcom.com",
            "community.cisco.com",
            "community.f5.com",
            "community.fortinet.com",
            "community.grafana.com",
            "community.ibm.com",
            "forums.oracle.com",
            "discourse.ubuntu.com",
        ),
    ),
    (
        DOCUMENTATION,
        (
            "learn.microsoft.com",
            "docs.aws.amazon.com",
            "cloud.google.com",
            "docs.cloud.google.com",
            "kubernetes.io/docs",
            "docs.docker.com",
            "docs.github.com",
            "docs.gitlab.com",
            "docs.redhat.com",
            "access.redhat.com",
            "documentation.suse.com",
            "documentation.ubuntu.com",
            "docs.kernel.org",
            "man7.org",
            "docs.oracle.com",
            "postgresql.org/docs",
            "dev.mysql.com/doc",
            "redis.io/docs",
            "mongodb.com/docs",
            "nginx.org/en/docs",
            "httpd.apache.org/docs",
            "kafka.apache.org",
            "developer.hashicorp.com",
            "prometheus.io/docs",
            "grafana.com/docs",
            "elastic.co/docs",
            "elastic.co/guide",
            "docs.python.org",
            "docs.ansible.com",
            "nvd.nist.gov",
            "cisa.gov",
            "rfc-editor.org",
            "datatracker.ietf.org",
            "owasp.org",
        ),
    ),
    (
        BLOG,
        (
            "medium.com",
            "dev.to",
            "substack.com",
            "blogspot.com",
            "wordpress.com",
            "hashnode.dev",
            "tumblr.com",
            "hackernoon.com",
        ),
    ),
)
"""Sites of each kind, as hosts with what is below them, or as a folder of one. The first that fits counts."""


def site_kind(url: str) -> SiteKind:
    """The kind of site that an address is on."""
    parts = urlsplit(url)
    host, path = (parts.hostname or "").rstrip("."), parts.path.lower()
    if host in ("github.com", "www.github.com"):
        return ISSUES if any(part in ("issues", "discussions", "pull") for part in path.split("/")[3:4]) else OTHER
    for kind, sites in _SITES:
        if any(_is_on(host, path, site) for site in sites):
            return kind
    return BLOG if _looks_like_blog(host, path) else OTHER


def _is_on(host: str, path: str, site: str) -> bool:
    name, _, folder = site.partition("/")
    if host != name and not host.endswith("." + name):
        return False
    return not folder or path == f"/{folder}" or path.startswith(f"/{folder}/")


def _looks_like_blog(host: str, path: str) -> bool:
    return host.split(".", maxsplit=1)[0] in ("blog", "blogs") or path.split("/")[1:2] in (["blog"], ["blogs"])
