"""Commands of code blocks and code spans: logical lines, without prompts, output and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opx.domain.procedures import Command

MAX_COMMAND = 10_000
"""Characters of a command; a longer one is not taken for a command."""

SHELLS = frozenset(
    (
        "sh",
        "bash",
        "shell",
        "zsh",
        "console",
        "terminal",
        "shell-session",
        "shellsession",
        "sh-session",
        "cmd",
        "bat",
        "powershell",
        "ps1",
        "pwsh",
        "ps",
    )
)
_TRANSCRIPTS = frozenset(("console", "terminal", "shell-session", "shellsession", "sh-session"))
_QUERIES = frozenset(
    ("sql", "pgsql", "plsql", "mysql", "tsql", "cql", "promql", "logql", "kql", "spl", "redis", "http", "esql")
)
_STATEMENTS = frozenset(("sql", "pgsql", "plsql", "mysql", "tsql", "cql"))
_DATA = frozenset(
    [
        "yaml",
        "yml",
        "json",
        "toml",
        "ini",
        "conf",
        "properties",
        "xml",
        "html",
        "css",
        "js",
        "javascript",
        "ts",
        "python",
        "py",
        "go",
        "java",
        "ruby",
        "rb",
        "rust",
        "c",
        "cpp",
        "hcl",
        "terraform",
        "diff",
        "patch",
        "text",
        "txt",
        "log",
        "csv",
        "markdown",
        "md",
        "mermaid",
        "dot",
        "nginx",
        "apache",
        "dockerfile",
        "puppet",
        "output",
        "none",
        "plaintext",
        "plain",
        "jsonnet",
        "erb",
        "groovy",
    ]
)

PROGRAMS = frozenset(
    [
        "kubectl",
        "oc",
        "helm",
        "kustomize",
        "argocd",
        "flux",
        "istioctl",
        "linkerd",
        "k9s",
        "kubeadm",
        "minikube",
        "eksctl",
        "rosa",
        "ocm",
        "odo",
        "aws",
        "gcloud",
        "gsutil",
        "bq",
        "az",
        "azcopy",
        "doctl",
        "heroku",
        "fly",
        "openstack",
        "nova",
        "terraform",
        "terragrunt",
        "tofu",
        "pulumi",
        "ansible",
        "ansible-playbook",
        "vault",
        "consul",
        "nomad",
        "packer",
        "salt",
        "puppet",
        "chef",
        "docker",
        "docker-compose",
        "podman",
        "crictl",
        "ctr",
        "nerdctl",
        "systemctl",
        "service",
        "journalctl",
        "supervisorctl",
        "launchctl",
        "initctl",
        "psql",
        "pg_dump",
        "pg_restore",
        "pg_ctl",
        "pg_isready",
        "pgbench",
        "pg_basebackup",
        "repmgr",
        "patronictl",
        "mysql",
        "mysqldump",
        "mysqladmin",
        "mariadb",
        "sqlite3",
        "sqlcmd",
        "sqlplus",
        "rman",
        "mongo",
        "mongosh",
        "mongodump",
        "cqlsh",
        "nodetool",
        "clickhouse-client",
        "redis-cli",
        "redis-benchmark",
        "memcached",
        "rabbitmqctl",
        "rabbitmqadmin",
        "rabbitmq-diagnostics",
        "kcat",
        "kafkacat",
        "etcdctl",
        "zkcli",
        "ceph",
        "rbd",
        "rados",
        "radosgw-admin",
        "gluster",
        "zpool",
        "zfs",
        "curl",
        "wget",
        "http",
        "https",
        "nc",
        "ncat",
        "netcat",
        "telnet",
        "nmap",
        "dig",
        "nslookup",
        "host",
        "whois",
        "ping",
        "ping6",
        "traceroute",
        "tracepath",
        "mtr",
        "ss",
        "netstat",
        "ip",
        "ifconfig",
        "route",
        "arp",
        "iptables",
        "ip6tables",
        "nft",
        "ufw",
        "firewall-cmd",
        "ethtool",
        "tcpdump",
        "tshark",
        "openssl",
        "ssh",
        "scp",
        "sftp",
        "rsync",
        "ssh-keygen",
        "ls",
        "cat",
        "less",
        "more",
        "head",
        "tail",
        "grep",
        "egrep",
        "fgrep",
        "zgrep",
        "rg",
        "awk",
        "sed",
        "cut",
        "sort",
        "uniq",
        "wc",
        "find",
        "xargs",
        "tee",
        "tr",
        "diff",
        "stat",
        "file",
        "du",
        "df",
        "free",
        "top",
        "htop",
        "atop",
        "iotop",
        "vmstat",
        "iostat",
        "mpstat",
        "sar",
        "pidstat",
        "dstat",
        "uptime",
        "w",
        "who",
        "last",
        "ps",
        "pgrep",
        "pkill",
        "pidof",
        "lsof",
        "fuser",
        "strace",
        "ltrace",
        "perf",
        "gdb",
        "jstack",
        "jmap",
        "jcmd",
        "jstat",
        "kill",
        "killall",
        "nice",
        "renice",
        "nohup",
        "watch",
        "time",
        "timeout",
        "date",
        "cal",
        "uname",
        "hostname",
        "hostnamectl",
        "timedatectl",
        "chronyc",
        "ntpq",
        "ntpdate",
        "dmesg",
        "sysctl",
        "ulimit",
        "lsblk",
        "blkid",
        "mount",
        "umount",
        "fdisk",
        "parted",
        "mkfs",
        "fsck",
        "resize2fs",
        "xfs_growfs",
        "xfs_repair",
        "lvs",
        "vgs",
        "pvs",
        "lvextend",
        "lvresize",
        "vgextend",
        "pvcreate",
        "vgcreate",
        "mdadm",
        "smartctl",
        "hdparm",
        "dd",
        "sync",
        "fallocate",
        "truncate",
        "cp",
        "mv",
        "rm",
        "mkdir",
        "rmdir",
        "ln",
        "chmod",
        "chown",
        "chgrp",
        "touch",
        "tar",
        "gzip",
        "gunzip",
        "zip",
        "unzip",
        "zcat",
        "base64",
        "md5sum",
        "sha256sum",
        "jq",
        "yq",
        "python",
        "python3",
        "pip",
        "perl",
        "ruby",
        "node",
        "npm",
        "yarn",
        "make",
        "git",
        "gh",
        "hub",
        "svn",
        "java",
        "php",
        "rake",
        "bundle",
        "rails",
        "apt",
        "apt-get",
        "apt-cache",
        "dpkg",
        "yum",
        "dnf",
        "rpm",
        "zypper",
        "apk",
        "snap",
        "brew",
        "crontab",
        "at",
        "useradd",
        "usermod",
        "userdel",
        "passwd",
        "su",
        "sudo",
        "id",
        "groups",
        "getent",
        "visudo",
        "logrotate",
        "nginx",
        "apachectl",
        "httpd",
        "haproxy",
        "varnishadm",
        "varnishncsa",
        "squidclient",
        "postfix",
        "postqueue",
        "postsuper",
        "mailq",
        "exim",
        "sendmail",
        "certbot",
        "keytool",
        "update-ca-certificates",
        "promtool",
        "amtool",
        "logcli",
        "tsdb",
        "cortextool",
        "thanos",
        "alertmanager",
        "grafana-cli",
        "jenkins",
        "fab",
        "cap",
        "bin/rake",
        "govuk",
        "kafka-topics",
        "kafka-consumer-groups",
        "kafka-configs",
        "kafka-reassign-partitions",
        "kafka-leader-election",
        "kafka-console-consumer",
        "kafka-log-dirs",
        "export",
        "source",
        "set",
        "unset",
        "echo",
        "printf",
        "cd",
        "pwd",
        "env",
        "for",
        "while",
        "if",
        "test",
        "read",
        "exec",
        "exit",
        "alias",
        "eval",
        "dir",
        "ipconfig",
        "netsh",
        "sc",
        "net",
        "tasklist",
        "taskkill",
        "wmic",
        "dism",
        "sfc",
        "chkdsk",
        "diskpart",
        "reg",
        "powershell",
        "robocopy",
        "gpupdate",
        "klist",
        "nltest",
        "w32tm",
    ]
)
_ROOT_PROMPT = re.compile(r"\s*#\s+(?=\S)")
_PROMPT = re.compile(
    r"\s*(?:\$|PS [A-Z]:[^>]*>|[A-Z]:\\[^>]*>|(?:sh|bash)-[\d.]+[#$]|[\w.-]+@[\w.-]+[^$#]{0,40}[$#]|\w+[=-][#>]|mysql>|(?:postgres|SQL|sqlite|redis|MariaDB)[^>]{0,30}>)\s+(?=\S)"
)
_POWERSHELL = re.compile(r"[A-Z][a-z]+-[A-Z]\w+\b")
_SQL = re.compile(
    r"(?:select|insert|update|delete|alter|create|drop|truncate|vacuum|analyze|explain|show|set|grant|revoke|with|kill|call|begin|commit|reindex|flush|purge|optimize|stop|start|change)\b[\s\S]*?(?:;|\b(?:from|table|index|into|processlist|status|slave|replica|database|user|role|system|variables|databases|tables)\b)",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(
    r"(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\$\([^)]*\)|\S*)\s+)*(?:sudo\s+(?:-\w+\s+(?:\w+\s+)?)*)?([\w./+-]+)"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=\S")
_HTTP = re.compile(r"(?:GET|POST|PUT|DELETE|PATCH|HEAD) /?\S+")
_PROMQL = re.compile(
    r"\s*(?:[a-z_:][\w:]*\{[^}]*\}|(?:sum|count|avg|min|max|topk|rate|increase|histogram_quantile|label_replace|absent)\b(?:\s*(?:by|without)\s*\([^)]*\))?\s*\()"
)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_PLACEHOLDER = re.compile(
    r"<[A-Za-z][\w .:/|-]{0,60}>|\$\{[A-Za-z_]\w*\}|\{\{-?\s*[\w.$ ]{1,60}\s*-?\}\}|\$[A-Z][A-Z0-9_]{1,40}\b|\[[A-Z][A-Z0-9_ -]{1,40}\]|(?<![\w$./%-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w(=])|%[A-Z_]{2,40}%"
)


def commands_of(code: str, language: str) -> Iterator[Command]:
    """The commands of a code block. A block of data, code of a program or output has none."""
    if language in _DATA:
        return
    if language in _QUERIES:
        yield from _queries(code, language)
        return
    if language not in SHELLS - _TRANSCRIPTS and _PROMQL.match(code):
        yield command(code.strip("\n"), "promql")
        return
    lines = code.split("\n")
    if language in _TRANSCRIPTS or not language:
        lines = [_without_root_prompt(line) for line in lines]
    prompted = [bool(_PROMPT.match(line)) for line in lines]
    for text, has_prompt in _logical_lines(lines, prompted):
        known = has_prompt or (language in SHELLS - _TRANSCRIPTS and not any(prompted)) or looks_like_command(text)
        if known and not (any(prompted) and not has_prompt) and len(text) <= MAX_COMMAND:
            yield command(text, language or language_of(text))


def spans_of(text: str) -> Iterator[str]:
    """The code spans of a paragraph."""
    for found in _CODE_SPAN.finditer(text):
        yield " ".join(found[2].split("\n")).strip()


def command(text: str, language: str = "") -> Command:
    return Command(text, language, tuple(dict.fromkeys(_PLACEHOLDER.findall(text))))


def looks_like_command(text: str) -> bool:
    """Whether a line begins as a command does: with a program that runbooks use, a PowerShell verb, or a statement."""
    line = text.strip()
    if not line or line[0] in "{[|*<":
        return False
    if _POWERSHELL.match(line) or _HTTP.match(line) or (line[0].isalpha() and _SQL.match(line)):
        return True
    first = _FIRST_WORD.match(line)
    if not first:
        return bool(_ASSIGNMENT.match(line))
    word = first[1].removesuffix(".sh")
    rest = line[first.end() : first.end() + 1]
    if rest and rest not in " \t\n|;&><\\":
        return False
    return (
        word.rpartition("/")[2] in PROGRAMS
        or first[1].endswith((".sh", ".py"))
        or line.startswith(("./", "/usr/", "/opt/", "/bin/", "~/"))
    )


def is_command_span(text: str) -> bool:
    """Whether a code span is a command with arguments, and not the name of one."""
    return " " in text.strip() and len(text) <= MAX_COMMAND and looks_like_command(text)


def language_of(text: str) -> str:
    line = text.strip()
    if _POWERSHELL.match(line):
        return "powershell"
    if _HTTP.match(line):
        return "http"
    first = _FIRST_WORD.match(line)
    if first and first[1].rpartition("/")[2].removesuffix(".sh") in PROGRAMS - {
        "set",
        "show",
        "kill",
        "start",
        "stop",
        "call",
    }:
        return "bash"
    return "sql" if _SQL.match(line) else "bash"


def _queries(code: str, language: str) -> Iterator[Command]:
    """Statements of SQL end with a semicolon; a query of another language is a block of lines, a command of Redis or HTTP a line."""
    if language in _STATEMENTS:
        parts = re.split(r"(?<=;)\s*\n", code)
    elif language in ("redis", "http"):
        parts = code.split("\n")
    else:
        parts = re.split(r"\n\s*\n", code)
    for part in parts:
        text = "\n".join(line for line in part.split("\n") if not line.lstrip().startswith(("--", "#"))).strip("\n")
        text = _PROMPT.sub("", text, count=1)
        if text.strip() and len(text) <= MAX_COMMAND:
            yield command(text.strip(), language)


def _logical_lines(lines: list[str], prompted: list[bool]) -> Iterator[tuple[str, bool]]:
    """Commands with all their lines: continuations, here-documents, open quotes, loops and pipes at a line's end."""
    at = 0
    while at < len(lines):
        begin, line = at, _PROMPT.sub("", lines[at], count=1) if prompted[at] else lines[at]
        at += 1
        if not line.strip() or line.lstrip().startswith(("#", "//", "REM ")):
            continue
        parts = [line]
        while at < len(lines) and not prompted[at] and _goes_on(parts):
            parts.append(lines[at])
            at += 1
        yield "\n".join(parts).strip(), prompted[begin]


def _without_root_prompt(line: str) -> str:
    """A line of a transcript whose `#` is the prompt of root and begins no comment."""
    match = _ROOT_PROMPT.match(line)
    return "$ " + line[match.end() :] if match and looks_like_command(line[match.end() :]) else line


_OPENS = re.compile(r"(?:^|[;\s])(?:do|then|else|case\s.*\sin)\s*$|\{\s*$")
_BODY = re.compile(r"^\s*(?:for|while|until|if|case)\b", re.MULTILINE)
_BODY_END = re.compile(r"(?:^|[;\s])(?:done|fi|esac)\b")


def _goes_on(parts: list[str]) -> bool:
    """Whether a command needs another line. Bounded: what is open after 200 lines was never closed."""
    if len(parts) > 200:
        return False
    last, text = parts[-1].rstrip(), "\n".join(parts)
    heredoc = _HEREDOC.search(text)
    if heredoc:
        return not any(line.strip() == heredoc[2] for line in parts[1:])
    if last.endswith(("\\", "|", "&&", "||", "`")) and not last.endswith("\\\\"):
        return last[-1] != "`" or text.count("`") % 2 == 0
    if _open_quote(text):
        return True
    if _BODY.match(parts[0]) and ("; do" in text or "; then" in text or _OPENS.search(parts[0])):
        return not _BODY_END.search(text)
    return False


def _open_quote(text: str) -> bool:
    """Whether a quote is open at the end. An apostrophe within a word is none."""
    quote = ""
    before = ""
    for letter in text:
        if quote:
            if letter == quote and before != "\\":
                quote = ""
        elif letter in "'\"" and before != "\\" and not (letter == "'" and before.isalnum()):
            quote = letter
        before = letter
    return bool(quote)
