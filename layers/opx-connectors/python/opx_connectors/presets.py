"""Documentation of vendors, as presets of the kinds `crawl` and `github_docs`.

`aws_docs`: topics are guides; each has a sitemap of its own. `gcp_docs`: topics are products; one index lists all pages
in all languages, others than English with `hl`. `distro_kb`: Red Hat lists one page a chapter below `html` and the same
books whole below `html-single`; Ubuntu's server guide is crawled. ArchWiki is left out: it turns robots away.
"""

from __future__ import annotations

from opx.connectors.registry import Preset

AWS_DOCS = Preset(
    "crawl",
    "documentation of AWS services, by topics",
    {"depth": 0, "max_pages": 50_000, "requests_per_second": 2.0},
    topics={"sitemaps": "https://docs.aws.amazon.com/{topic}/sitemap.xml", "include": "/{topic}/"},
    default_topics=(
        "AWSEC2/latest/UserGuide",
        "AmazonCloudWatch/latest/monitoring",
        "AmazonRDS/latest/UserGuide",
        "AmazonS3/latest/userguide",
        "IAM/latest/UserGuide",
        "eks/latest/userguide",
        "lambda/latest/dg",
    ),
)
AZURE_DOCS = Preset(
    "github_docs",
    "Azure documentation, from its repository",
    {
        "repository": "MicrosoftDocs/azure-docs",
        "paths": ("articles",),
        "patterns": ("*.md",),
        "exclude": ("*/includes/*", "*/toc.md", "*/media/*"),
        "source_uri": "https://learn.microsoft.com/azure/{page}",
    },
)
DISTRO_KB = Preset(
    "crawl",
    "public documentation of Linux distributions",
    {
        "start": ("https://documentation.ubuntu.com/server/",),
        "sitemaps": ("https://docs.redhat.com/sitemaps/docs/docs-sitemap-index.xml",),
        "exclude": ("*/_sources/", "*/genindex", "*/search/"),
        "depth": 4,
        "max_pages": 50_000,
    },
    topics={"include": "/{topic}/"},
    default_topics=("en/documentation/red_hat_enterprise_linux/9/html", "server"),
)
GCP_DOCS = Preset(
    "crawl",
    "documentation of Google Cloud, by topics",
    {
        "sitemaps": ("https://docs.cloud.google.com/sitemap.xml",),
        "exclude": ("*?hl=", "*&hl=", "*/docs/reference/"),
        "depth": 0,
        "max_pages": 50_000,
        "requests_per_second": 2.0,
    },
    topics={"include": "/{topic}/"},
    default_topics=(
        "compute/docs",
        "iam/docs",
        "kubernetes-engine/docs",
        "logging/docs",
        "monitoring/docs",
        "sql/docs",
        "storage/docs",
        "vpc/docs",
    ),
)
LINUX_KERNEL = Preset(
    "github_docs",
    "the kernel's documentation, from its repository",
    {
        "repository": "torvalds/linux",
        "paths": ("Documentation",),
        "patterns": ("*.rst",),
        "exclude": ("*/translations/*",),
        "source_uri": "https://docs.kernel.org/{page}.html",
    },
)
OWASP = Preset(
    "github_docs",
    "the OWASP Cheat Sheet Series",
    {
        "repository": "OWASP/CheatSheetSeries",
        "paths": ("cheatsheets",),
        "patterns": ("*.md",),
        "source_uri": "https://cheatsheetseries.owasp.org/cheatsheets/{page}.html",
    },
)
