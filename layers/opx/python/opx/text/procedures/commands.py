"""Commands of code blocks and code spans: logical lines, without prompts, output and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from opx.domain.procedures import Command
from opx.text.procedures.phrases import words

MAX_COMMAND = 10_000
"""Characters of a command; a longer one is not taken for a command."""

_SHELLS = words("sh bash shell zsh ksh fish cmd bat powershell ps1 pwsh ps")
_STATEMENTS = frozenset(("sql", "pgsql", "plsql", "mysql", "tsql", "cql", "psql", "postgresql"))
_LINES = frozenset(("redis", "http"))
_QUERIES = _STATEMENTS | _LINES | frozenset(("promql", "logql", "kql", "spl", "esql"))
_DATA = words(
    """
    yaml yml json toml ini conf properties xml html css csv js javascript ts python py go java ruby rb rust c cpp hcl
    terraform diff patch text txt log markdown md mermaid dot nginx apache dockerfile puppet output none plaintext plain
    jsonnet erb groovy
    """
)
PROGRAMS = words(
    """
    kubectl oc helm kustomize argocd flux istioctl linkerd k9s kubeadm minikube eksctl rosa ocm odo kubectx kubens stern
    docker docker-compose podman crictl ctr nerdctl
    aws gcloud gsutil bq az azcopy doctl heroku fly openstack nova
    terraform terragrunt tofu pulumi ansible ansible-playbook vault consul nomad packer salt puppet chef
    systemctl service journalctl supervisorctl launchctl initctl
    psql pg_dump pg_restore pg_ctl pg_isready pgbench pg_basebackup pg_rewind pg_resetwal dropdb createdb dropuser
    repmgr patronictl pgbouncer
    mysql mysqldump mysqladmin mariadb sqlite3 sqlcmd sqlplus rman mongo mongosh mongodump mongorestore
    cqlsh nodetool clickhouse-client redis-cli redis-benchmark memcached rabbitmqctl rabbitmqadmin rabbitmq-diagnostics
    hdfs hbase hive solr cmctl velero restic etcdutl vtctlclient pt-kill gh-ost pt-online-schema-change flyway alembic
    kcat kafkacat kafka-topics kafka-consumer-groups kafka-configs kafka-reassign-partitions kafka-leader-election
    kafka-console-consumer kafka-log-dirs etcdctl zkcli
    ceph rbd rados radosgw-admin gluster zpool zfs
    curl wget http https nc ncat netcat telnet nmap dig nslookup host whois ping ping6 traceroute tracepath mtr
    ss netstat ip ifconfig route arp iptables ip6tables nft ufw firewall-cmd ethtool tcpdump tshark openssl
    ssh scp sftp rsync ssh-keygen ssh-add
    ls cat less more head tail grep egrep fgrep zgrep rg awk sed cut sort uniq wc find xargs tee tr diff stat file
    du df free top htop atop iotop vmstat iostat mpstat sar pidstat dstat uptime w who last
    ps pgrep pkill pidof lsof fuser strace ltrace perf gdb gcore jstack jmap jcmd jstat
    kill killall nice renice nohup watch time timeout date cal uname hostname hostnamectl timedatectl chronyc ntpq ntpdate
    dmesg sysctl ulimit lsblk blkid mount umount fdisk parted mkfs mkfs.ext4 mkfs.xfs mke2fs fsck
    resize2fs xfs_growfs xfs_repair
    wipefs sgdisk shred swapoff swapon mkswap lvremove vgremove pvremove lvconvert lvreduce virsh
    lvs vgs pvs lvextend lvresize vgextend pvcreate pvresize vgcreate mdadm smartctl hdparm dd sync fallocate truncate
    cp mv rm mkdir rmdir ln chmod chown chgrp touch tar gzip gunzip zip unzip zcat base64 md5sum sha256sum jq yq
    python python3 pip perl ruby node npm yarn make git gh hub svn java php rake bundle rails
    apt apt-get apt-cache dpkg yum dnf rpm zypper apk snap brew
    reboot shutdown halt poweroff cf crontab at useradd usermod userdel passwd su sudo id groups getent visudo logrotate
    nginx apachectl httpd haproxy varnishadm varnishncsa squidclient
    postfix postqueue postsuper mailq exim sendmail certbot keytool update-ca-certificates
    promtool amtool logcli tsdb cortextool thanos alertmanager grafana-cli jenkins fab cap
    export source set unset echo printf cd pwd env for while if test read exec exit alias eval
    bash sh zsh ksh dash pwsh doas runuser chroot nsenter
    flyctl oci hcloud govc esxcli kops rke talosctl clusterctl helmfile vagrant cockroach couchbase-cli
    unlink srm blkdiscard cryptsetup dmsetup e2fsck fsck.ext4 fsck.xfs btrfs vgreduce vgchange lvchange lvcreate pvmove
    tune2fs growpart
    kafka-acls kafka-delete-records valkey-cli keydb-cli ldapadd ldapdelete ldapmodify rclone s3cmd s5cmd rndc
    pgbackrest barman wal-g xtrabackup pcs cephadm pulsar-admin rpk vtctldclient elasticsearch-node opensearch-node
    ipset ipvsadm conntrack nmcli nvme iscsiadm drbdadm groupdel deluser rmmod
    dir ipconfig netsh sc net tasklist taskkill wmic dism sfc chkdsk diskpart reg powershell robocopy gpupdate klist
    nltest w32tm
    """
)
"""Programs, shell words and shell built-ins that lines of runbooks begin with.

Not taken from `effects.yaml`, which knows them all (a test sees to that): it also has names that prose begins with (`copy`,
`look`, `format`), and parsing it would take ingestion and searches .4 s that don't need it."""
_WORDS = words(
    """
    at cap chef cut date file find for free host if last less make more nice puppet read route salt service set snap sort
    source test time watch while who
    """
)
"""Programs that are English words, too: they need an argument that prose doesn't have."""
_BLANKS = {"service": 2, "make": 1}
"""Of lines that need no such argument: `service nginx restart`, `make install`."""
_SHARED_WORDS = frozenset(("set", "show", "kill", "start", "stop", "call"))

_PROMPT = re.compile(
    r"\s*(?:[$❯➜]|PS [A-Z]:[^>]*>|[A-Z]:\\[^>]*>|(?:sh|bash)-[\d.]+[#$]|[\w.-]+@[\w.-]+[^$#]{0,40}[$#]|\w+[=-][#>]|mysql>"
    r"|(?:postgres|SQL|sqlite|redis|MariaDB)[^>]{0,30}>)\s+(?=\S)"
)
_ROOT_PROMPT = re.compile(r"\s*#\s+(?=[a-z./])")
_POWERSHELL = re.compile(r"[A-Z][a-z]+-[A-Z]\w+\b")
_SQL = re.compile(
    r"(?:select|insert|update|delete|alter|create|drop|truncate|vacuum|analyze|explain|show|set|grant|revoke|with|kill|call"
    r"|begin|commit|reindex|flush|purge|optimize|stop|start|change)\b[\s\S]*?"
    r"(?:;|\b(?:from|tables?|index|into|processlist|status|slave|replica|databases?|user|role|system|variables)\b)",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(
    r"(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\$\([^)]*\)|\S*)\s+)*(?:sudo\s+(?:-\w+\s+(?:\w+\s+)?)*)?"
    r"(?:\\(?=(?:rm|cp|mv)\s))?([\w./+-]+)"
)
_EMPTIES = re.compile(r"(?:(?::|true)\s*>\|?\s*|>\|?\s*(?=\S+/))(?:~|\$\w+|\$\{\w+\}|<[\w-]+>)?/\S+\Z")
"""`: > /var/log/app.log`, or `> /var/log/app.log`: a redirection of nothing, which empties the file."""
_CHANGING = (
    "delete|destroy|purge|wipe|erase|truncate|flush|prune|drop|remove|terminate|kill|drain|evict|promote|demote|failover"
    "|switchover|decommission|deregister|detach|revoke|reset|restart|rollback"
)
_NO_NOUN = (
    "to|not|be|is|was|were|will|would|should|must|can|cannot|could|please|on|of|the|an?|and|or|if|when|failed|error"
)
_CHANGES = re.compile(
    rf"(?:(?!(?:{_NO_NOUN})\s)[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*\s+){{1,3}}(?:{_CHANGING})(?:-[a-z-]+)?\s+[\w<$\"'{{/~.-]"
)
"""An unknown program with a subcommand that changes something, and an argument: `gatewayctl promote us`."""
_COMPOUND = re.compile(r"\(\s*\n|[\w-]+ ?\(\)\s*\{")
_HTTP = re.compile(r"(?:GET|POST|PUT|DELETE|PATCH|HEAD) /?\S+")
_PROMQL = re.compile(
    r"[\s(]*(?:[a-z_:][\w:]*(?:\{[^}]*\}|_(?:total|seconds|bytes|count|bucket|sum)\b)"
    r"|(?:sum|count|avg|min|max|topk|rate|increase|histogram_quantile|label_replace|absent)\b"
    r"(?:\s*(?:by|without)\s*\([^)]*\))?\s*\()"
)
_COMMENT = re.compile(r"\s*(?:#|//|REM |-- )")
_ARGUMENT = re.compile(r"\s(?:--?\w|&&|\||[<$\"'{/~.]|[^\s=/@*]*[=/@*])")
_PROGRAM_LINE = re.compile(
    r"[a-z][\w.+/-]*(?:\s+(?!\d+\s)|\Z)[^\n]*(?<![.:,;!?])(?:\n|\Z)|[A-Z][A-Z0-9_]*=\S|[a-z_]\w*=\$\("
)
_OUTPUT = re.compile(
    r"\s*(?:[A-Z][A-Z0-9()%_/-]+(?:\s{2,}|\t)\S|\{\s*(?:\"|\Z)|\[\s*(?:\{|\Z)|\d{4}-\d\d-\d\d|apiVersion:"
    r"|(?:[Ee]rror|ERROR|[Ww]arning|WARNING)\b[: ]|HTTP/\d|[A-Z][\w ]{1,30}:(?:\s|\Z))"
)
_ASKS_TO_RUN = re.compile(r"\b(?:run|running|execute|executing|enter|type|issue|invoke|command)\W*\Z", re.IGNORECASE)
_NAMES_MEANS = re.compile(r"(?:\b(?:use|using|with|via|by|try|and|or|then)\b|:)\W*\Z", re.IGNORECASE)
_PROGRAM_BEHIND = re.compile(r"\W+(?:commands?|subcommands?|tool|binary|utility|plugin|cli|script)\b", re.IGNORECASE)
_WITHOUT_ARGUMENTS = frozenset(("flushall", "flushdb", "halt", "poweroff", "reboot"))
"""Commands that do harm with no argument: a span of one alone is taken for a command."""
_PLACEHOLDER = re.compile(
    r"<[A-Za-z][\w .:/|-]{0,60}>|\$\{[A-Za-z_]\w*\}|\{\{-?\s*[\w.$ ]{1,60}\s*-?\}\}|\$[A-Z][A-Z0-9_]{1,40}\b"
    r"|\[[A-Z][A-Z0-9_ -]{1,40}\]|(?<![\w$./%-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w(=])|%[A-Z_]{2,40}%"
)
_ASSIGNED = re.compile(r"(?<![\w$-])([A-Za-z_]\w*)=|\b(?:for|read)\s+([A-Za-z_]\w*)")
_ENVIRONMENT = frozenset(("HOME", "HOSTNAME", "LOGNAME", "NF", "NR", "PATH", "PWD", "SHELL", "TMPDIR", "UID", "USER"))


def commands_of(code: str, language: str) -> Iterator[Command]:
    """The commands of a code block, each a contiguous part of it. Data, a program's source or output have none."""
    if language in _DATA:
        return
    if language in _QUERIES:
        yield from _queries(code, language)
    elif _PROMQL.match(_without_comments(code)):
        yield from _queries(code, "promql")
    else:
        yield from _shell_commands(code, language)


def inline_commands(text: str) -> Iterator[Command]:
    """The commands in a paragraph's code spans. A span that only names a command, such as `kubectl scale`, is none unless
    the words before it ask to run it. A line break within a span is a blank, as Markdown has it."""
    for start, end, span in _spans(text):
        is_known = len(span) <= MAX_COMMAND and looks_like_command(span)
        if len(span) > MAX_COMMAND or not (is_known or _CHANGES.match(span)):
            continue
        size, before = span.count(" ") + 1, text[max(start - 40, 0) : start]
        has_arguments = (is_known and size > 2) or _ARGUMENT.search(span)
        is_alone = not (text[:start] + text[end:]).strip(" .:")
        names_program = size == 1 and _PROGRAM_BEHIND.match(text, end)
        is_run = (_ASKS_TO_RUN.search(before) or span.lower() in _WITHOUT_ARGUMENTS) and not names_program
        if has_arguments or is_alone or is_run or ((size == 2 or not is_known) and _NAMES_MEANS.search(before)):
            yield command(span, language_of(span))


def row_commands(row: str) -> Iterator[Command]:
    """The commands in the code spans of a table's row, but for mere names. A pipe within a span is the command's, also where
    it is escaped, as Markdown wants it."""
    begin = after = 0
    cells = []
    for start, end, _ in (*_spans(row), (len(row), len(row), "")):
        for pipe in re.finditer(r"(?<!\\)\|", row[after:start]):
            cells.append(row[begin : after + pipe.start()])
            begin = after + pipe.end()
        after = end
    for cell in (*cells, row[begin:]):
        found = inline_commands(cell.replace("\\|", "|"))
        yield from (one for one in found if " " in one.text or one.text.lower() in _WITHOUT_ARGUMENTS)


def command(text: str, language: str = "") -> Command:
    """A command with its placeholders: variables that it sets itself or that every shell has are none."""
    known = _ENVIRONMENT | {name for pair in _ASSIGNED.findall(text) for name in pair}
    found = (one for one in _PLACEHOLDER.findall(text) if not (one[0] == "$" and one.strip("${}") in known))
    return Command(text, language, tuple(dict.fromkeys(found)))


def looks_like_command(text: str) -> bool:
    """True if a line begins as a command does: with a program that runbooks use, a PowerShell verb, or a statement."""
    line = text.strip()
    if not line or line[0] in "{[|*<":
        return False
    if (
        line.lower() in _WITHOUT_ARGUMENTS
        or _POWERSHELL.match(line)
        or _HTTP.match(line)
        or _COMPOUND.match(line)
        or _EMPTIES.match(line)
        or (line[0].isalpha() and _SQL.match(line))
    ):
        return True
    first = _FIRST_WORD.match(line)
    if not first or line[first.end() : first.end() + 1] not in ("", *" \t\n|;&><\\"):
        return False
    program = _program(first)
    if program in _WORDS:
        return bool(_ARGUMENT.search(line)) or line.count(" ") == _BLANKS.get(program)
    return (
        program in PROGRAMS
        or first[1].endswith((".sh", ".py"))
        or line.startswith(("./", "/usr/", "/opt/", "/bin/", "~/"))
    )


def language_of(text: str) -> str:
    """The language of a command outside a tagged code block: `powershell`, `http`, `sql`, otherwise `bash`."""
    line = text.strip()
    if _POWERSHELL.match(line):
        return "powershell"
    if _HTTP.match(line):
        return "http"
    if line.lower() in ("flushall", "flushdb"):
        return "redis"
    first = _FIRST_WORD.match(line)
    program = _program(first) if first else ""
    return "sql" if program not in PROGRAMS - _SHARED_WORDS and _SQL.match(line) else "bash"


def _program(first: re.Match[str]) -> str:
    """The name of the program that a line's first word calls."""
    return first[1].rpartition("/")[2].removesuffix(".sh")


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Code spans with their offsets: runs of backticks of one length, in linear time whatever is left open."""
    runs = list(re.finditer("`+", text))
    same: dict[int, int] = {}
    closing = [-1] * len(runs)
    for at in range(len(runs) - 1, -1, -1):
        length = len(runs[at][0])
        closing[at] = same.get(length, -1)
        same[length] = at
    at = 0
    while at < len(runs):
        if closing[at] >= 0:
            yield (
                runs[at].start(),
                runs[closing[at]].end(),
                text[runs[at].end() : runs[closing[at]].start()].replace("\n", " ").strip(),
            )
        at = max(closing[at], at) + 1


# -- queries


def _queries(code: str, language: str) -> Iterator[Command]:
    """Statements of SQL end with a semicolon, a command of Redis or HTTP with its line, a query of another language with a
    blank line."""
    if language in _STATEMENTS:
        parts = re.split(r"(?<=;)[^\S\n]*\n", code)
    elif language in _LINES:
        parts = code.split("\n")
    else:
        parts = re.split(r"\n\s*\n", code)
    for part in parts:
        text = _without_comments(part).strip()
        prompt = _PROMPT.match(text)
        text = text[prompt.end() :] if prompt else text
        if text and len(text) <= MAX_COMMAND:
            yield command(text, language)


def _without_comments(code: str) -> str:
    """Code without the comments and blank lines before and after it."""
    lines = code.split("\n")
    begin, end = 0, len(lines)
    while begin < end and (not lines[begin].strip() or _COMMENT.match(lines[begin])):
        begin += 1
    while end > begin and (not lines[end - 1].strip() or _COMMENT.match(lines[end - 1])):
        end -= 1
    return "\n".join(lines[begin:end])


# -- shells


class _Logical(Struct):
    """A command's lines as one. `begins`: it is the block's first; `fresh`: it is, or it follows a comment or a blank line;
    `commented`: it follows a comment."""

    text: str
    prompted: bool
    begins: bool
    fresh: bool
    commented: bool

    def is_shaped(self) -> bool:
        """True if an unknown program's line has the shape of a command: a lower-case word and an option, path or variable."""
        return bool(_PROGRAM_LINE.match(self.text) and (_ARGUMENT.search(self.text) or _ASSIGNED.match(self.text)))


def _shell_commands(code: str, language: str) -> Iterator[Command]:
    lines = code.split("\n")
    prompts = _prompts(lines, language)
    found = [one for one in _logical_lines(lines, prompts) if len(one.text) <= MAX_COMMAND]
    if any(prompts):
        kept = [one for one in found if one.prompted or (one.begins and looks_like_command(one.text))]
    elif language in _SHELLS:
        kept = _without_output(found)
    else:
        kept = _recognised(found)
    for one in kept:
        yield command(one.text, language or language_of(one.text))


def _prompts(lines: Sequence[str], language: str) -> list[int]:
    """The length of each line's prompt, 0 for none. `#` is the prompt of root in a transcript in which no other line is a
    command, and begins a comment otherwise."""
    prompts = [found.end() if (found := _PROMPT.match(line[:MAX_COMMAND])) else 0 for line in lines]
    if language in _SHELLS or any(prompts):
        return prompts
    roots = [found.end() if (found := _ROOT_PROMPT.match(line)) else 0 for line in lines]
    if any(map(looks_like_command, (line[:200] for line, root in zip(lines, roots, strict=True) if not root))):
        return prompts
    return [
        root if root and looks_like_command(line[root:][:200]) else 0 for line, root in zip(lines, roots, strict=True)
    ]


def _without_output(found: Sequence[_Logical]) -> list[_Logical]:
    """Leaves out output in a block that is tagged as shell: from a table's head or the like to the next command."""
    kept = []
    in_output = False
    for one in found:
        known = looks_like_command(one.text)
        in_output = not known and (bool(_OUTPUT.match(one.text)) or (in_output and not one.fresh))
        if not in_output:
            kept.append(one)
    return kept


def _recognised(found: Sequence[_Logical]) -> list[_Logical]:
    """The lines of an untagged block that are commands. A line of an unknown program is one if it begins the block or follows
    a comment, or if all other lines are commands, too."""
    known = [looks_like_command(one.text) for one in found]
    shaped = [is_known or one.is_shaped() for one, is_known in zip(found, known, strict=True)]
    if all(shaped):
        return list(found)
    any_command = any(known) or any(one.fresh and fits for one, fits in zip(found, shaped, strict=True))
    return [
        one
        for one, is_known, fits in zip(found, known, shaped, strict=True)
        if is_known or (one.fresh and fits) or (one.commented and any_command and _PROGRAM_LINE.match(one.text))
    ]


def _logical_lines(lines: Sequence[str], prompts: Sequence[int]) -> Iterator[_Logical]:
    """Commands with all their lines: continuations, here-documents, open quotes and brackets, loops."""
    at, begins, fresh, commented, unclosed = 0, True, True, False, 0
    while at < len(lines):
        if not prompts[at] and (not lines[at].strip() or _COMMENT.match(lines[at])):
            fresh, commented = True, bool(lines[at].strip())
            at += 1
            continue
        end, closed = _command_end(lines, prompts, at, unclosed < _MAX_UNCLOSED)
        unclosed += not closed
        text = "\n".join((lines[at][prompts[at] :], *lines[at + 1 : end])).strip()
        yield _Logical(text, bool(prompts[at]), begins, fresh, commented)
        at, begins, fresh, commented = end, False, False, False


_MAX_LINES = 200
"""Lines of a command: what is open behind them was never meant to go on."""
_MAX_UNCLOSED = 20
"""Commands of a block that leave something open until its end, after which only continuations are followed."""


def _command_end(lines: Sequence[str], prompts: Sequence[int], begin: int, patient: bool) -> tuple[int, bool]:
    """The index behind a command's last line, and whether everything that it opens is closed. If not, only its continued
    lines belong to it."""
    state = _Open()
    size = shortest = 0
    end = begin + 1
    for at in range(begin, min(begin + _MAX_LINES, len(lines))):
        if at > begin and prompts[at]:
            return shortest or at, not shortest
        size += len(lines[at])
        if size > MAX_COMMAND:
            break
        end = at + 1
        state.feed(lines[at][prompts[at] :] if at == begin else lines[at])
        if not state.is_open or (not patient and not state.continued):
            return end, not state.is_open
        if not state.continued:
            shortest = shortest or end
    return shortest or end, False


_TOKEN = re.compile(r"\\.|(?:(?<=\s)|^)#.*|['\"(){}\[\]]|(?<=\s)<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_QUOTED = {"": _TOKEN, "'": re.compile("'"), '"': re.compile(r"(?<!\\)(?:\\\\)*\"")}
_BODY = re.compile(r"(?:^|[;&]|\b(?:do|then|else)\b)\s*(?:for|while|until|if|case)\b(?!\s*[({])")
_BODY_END = re.compile(r"(?:^|[;&])\s*(?:done|fi|esac)\b")
_CONTINUED = re.compile(r"(?:(?<!\\)(?:\\\\)*\\|\||&&)\s*\Z")


class _Open:
    """Tracks what a command's lines leave open: a quote, brackets, a here-document, a loop, a continuation."""

    def __init__(self) -> None:
        self.continued = False
        self._quote = ""
        self._depth = 0
        self._opened = False
        self._document = ""
        self._bodies = 0

    @property
    def is_open(self) -> bool:
        """True if the command goes on. Brackets count only where a line ends with one, as they do in code."""
        brackets = self._opened and self._depth > 0
        return bool(self._quote or self._document or self._bodies > 0 or brackets or self.continued)

    def feed(self, line: str) -> None:
        if self._document:
            if line.strip() == self._document:
                self._document = ""
            return
        if not self._quote:
            self._bodies += len(_BODY.findall(line)) - len(_BODY_END.findall(line))
        self._follow(line)
        self._opened = self._opened or line.rstrip().endswith(("(", "{", "["))
        self.continued = bool(not self._quote and not self._document and _CONTINUED.search(line[-20:]))

    def _follow(self, line: str) -> None:
        """Follows quotes, brackets and here-documents. An apostrophe within a word is no quote."""
        at = 0
        while True:
            token = _QUOTED[self._quote].search(line, at)
            if token is None:
                return
            at, found = token.end(), token[0]
            if self._quote:
                self._quote = ""
            elif found in ("'", '"'):
                within_word = found == "'" and line[token.start() - 1 : token.start()].isalnum()
                self._quote = "" if within_word and "'" not in line[at:] else found
            elif token.lastindex:
                self._document = token[2]
            elif found[0] == "#":
                return
            elif found[0] != "\\":
                self._depth += 1 if found in "([{" else -1
