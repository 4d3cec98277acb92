"""What each kind of source is, in the words of those who choose one."""

from __future__ import annotations

ABOUT = {
    "attack": "MITRE ATT&CK: techniques, mitigations, groups, software and tactics",
    "aws_docs": "documentation of AWS services, by topics",
    "azure_docs": "Azure documentation, from its repository",
    "brave_search": "results of Brave's search engine for questions that are asked again and again",
    "confluence": "pages of Confluence spaces, Cloud and Data Center",
    "crawl": "a web site: from addresses or sitemaps, within its robots.txt",
    "directory": "files of a directory of this machine",
    "discourse": "topics of a vendor's forum that runs on Discourse",
    "distro_kb": "public documentation of Linux distributions",
    "feed": "entries of RSS and Atom feeds, such as engineering blogs",
    "gcp_docs": "documentation of Google Cloud, by topics",
    "git_history": "commits of a git repository",
    "github_discussions": "discussions of a GitHub repository, with their answers",
    "github_docs": "documents in a GitHub repository",
    "github_issues": "issues of a GitHub repository, with their comments",
    "google_search": "results of a Google Programmable Search Engine for questions that are asked again and again",
    "imap": "messages of a mailbox",
    "jira": "issues of Jira, Cloud and Data Center, with comments and links",
    "linux_kernel": "the kernel's documentation, from its repository",
    "mailbox": "messages in .eml files, an mbox file or a Maildir of this machine",
    "microsoft_learn": "troubleshooting and reference of Microsoft Learn, by topics",
    "nvd": "CVEs of the NVD, joined with CISA's known exploited ones and EPSS",
    "owasp": "the OWASP Cheat Sheet Series",
    "rfc": "RFCs of the IETF, with what they obsolete and update",
    "s3_prefix": "objects of another bucket",
    "slack_export": "threads and days of a Slack export on this machine",
    "stack_overflow": "questions of Stack Overflow and its sister sites, with their answers",
}
