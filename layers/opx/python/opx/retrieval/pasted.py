"""Whether a question holds what was copied from a log, a program or a terminal, where quotes and dashes mean nothing."""

from __future__ import annotations

import re

MIN_EXCLUDED = 3
"""Letters of a word that a dash excludes: shorter ones are bundled options (`-rf`, `-it`)."""

PROSE_WORDS = 10
SENTENCE_WORDS = 4
"""Words outside of quotation marks from which a text is running text, and those of a sentence with its full stop."""

_FULL_STOP = re.compile(r"[\w)%]\.(?=\s|\Z)")

_LEVEL = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|FATAL|CRITICAL|PANIC|EMERG|ALERT"
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_PASTED = re.compile(
    rf"""
    \d\d:\d\d:\d\d                                    # a time of day, to the second
  | \d{{4}}-\d\d-\d\d[T ]\d\d:\d\d
  | \b(?:{_MONTH})[ ]{{1,2}}\d{{1,2}}[ ]\d\d:\d\d
  | [\w.\])}}]\s?(?:=~|!~|!=|==|:=)\s?["'\w]           # a condition of a program or of PromQL
  | (?<![\w?&/])[\w.-]{{1,64}}=["'\w/\[{{-]            # key=value, but not of a URL
  | "\s?:\s?["\d\[{{tfn-]                             # "key": value
  | [\[{{]\s?"[^"\n]{{0,200}}"\s?[,:\]]
  | ^[ \t]{{0,16}}["']?[A-Za-z_][\w.-]{{0,64}}["']?:[ ]+["'{{\[]     # key: "value", alone on its line
  | ^(?:\[|<\d{{1,3}}>)?(?:{_LEVEL})\b\]?:?\s+\S
  | ^[A-Z]{{2,8}}-?\d{{3,6}}:\s                             # ORA-12154: ...
  | [\[(](?:{_LEVEL})[\])]
  | \b(?:{_LEVEL}):[ ]
  | \b(?:level|severity|lvl)[=:]\w
  | \bat[ ][\w$.<>/]{{1,200}}\([^)\n]{{0,200}}\)           # a frame of a Java or JavaScript stack
  | \bFile[ ]"[^"\n]{{0,200}}",[ ]line[ ]\d
  | Traceback[ ]\(most | \bCaused[ ]by:[ ] | \bException[ ]in[ ]thread | \bgoroutine[ ]\d | ^panic:[ ]
  | \b\w{{1,100}}(?:Exception|Error):[ ]
  | ^[$%>]\s+\S | ^\S{{1,64}}@\S{{1,64}}[$\#%]\s
  | ^(?:SELECT|INSERT|UPDATE|DELETE|ALTER|CREATE|DROP)[ ][^\n]{{0,200}}?(?:\bFROM\b|\bINTO\b|\bSET\b|\bTABLE\b|\bINDEX\b)
  | \w\[\d+(?:[smhd](?::\d*[smhd]?)?)?\][: )]?               # rate(x[5m]), sshd[123]:
  | ^@@[ ]-\d | ^(?:\+\+\+|---)[ ]\S | ^diff[ ]--git
""",
    re.VERBOSE | re.MULTILINE,
)

_COLUMN = re.compile(r"\S(?:[ ]{2,}|\t)(?=\S)")
_PREFIX = re.compile(r"\w[\])\"]?:[ ](?=\S)")
"""`Error response from daemon: conflict: unable to ...`: one is a question's own, several are an error's."""

_QUOTED = re.compile(r'(?<!\S)"[^"\n]*"(?=[\s.,;:!?)]|\Z)')

_CERTAIN_FLAG = re.compile(
    r"(?<!\S)(?:--[A-Za-z][\w-]*|-[A-Za-z](?!\S)|-[A-Za-z]\d+(?!\S)|-(?:X(?:mx|ms|ss|mn|bootclasspath)|XX|D|agentlib|javaagent)[\w.:+-]*[\d.:=]"
    r"|-[A-Za-z][\w.-]*[=/]|[/][A-Za-z?](?!\S))"
)
_SHELL = re.compile(
    r"(?<!\S)(?:\||\|\||&&|>>?|2>(?:&1)?|[12]?>/dev/null|<<-?\w+)(?!\S)|\$\(|\$\{|^[ \t]*[$#%>]\s|(?<!\S)\./\w",
    re.MULTILINE,
)
_VERB_NOUN = re.compile(
    r"\b(?:Get|Set|New|Remove|Add|Start|Stop|Restart|Test|Invoke|Enable|Disable|Import|Export|Out|Select|Where|Write|Copy|"
    r"Move|Clear|Resolve|Register|Update|Install|Connect|Format|Measure|Sort|ForEach)-[A-Z]\w+"
)
_COMMANDS = frozenset(
    """ansible ansible-playbook apt apt-get aws awk az bash cat cfssl chmod chown consul cp crictl ctr curl date dd df
    dig dmesg dnf docker dotnet du etcdctl fdisk ffmpeg find gcloud git go gpg grep helm htop iptables ip java
    javac jmap journalctl jq jstack keytool kill killall kinit kubectl ldapsearch ln ls lsblk lsof make mkdir
    mongo mongosh mount mtr mv mysql mysqldump netstat nc ncat nginx nmap node nomad npm nslookup openssl
    pg_dump pgrep ping pip pkill podman ps psql python python3 rabbitmqctl redis-cli rm rpm rsync scp screen sed
    sh smartctl ssh ss strace sudo systemctl sysctl tail tar tcpdump telnet terraform tmux top traceroute ulimit
    umount vault vmstat watch wget xargs yum zfs zpool zsh""".split()  # noqa: SIM905 - one word a line would be a page
)
_LONG_FLAGS = frozenset(
    """addext alias atime auto-approve auto_approve backend-config batch bench check-index classpath client cmin
    connect count cover days delete destroy detach detailed-exitcode dates depth empty exec executable export
    fingerprint force-copy fprint group host iname importcert in inform input iregex issuer jar json key keyalg
    keyout keystore list lock maxdepth message migrate-state mindepth mmin modulus mtime name namespace newer
    newkey no-color noout nodes ok out outform parallelism passin passout path perm pid print printcert print0
    prune race reconfigure refresh refresh-only regex replace run scroll serial server servername showcerts
    showversion size starttls startdate enddate state storepass subj subject target tcp text tls1 type upgrade
    user validity var var-file verbose verify version wholename x509""".split()  # noqa: SIM905
)


def looks_pasted(text: str) -> bool:
    """Whether a text has a line of a log, a program, a configuration or a terminal in it; what is between quotes doesn't
    count, since people quote from such lines."""
    bare = _QUOTED.sub('""', text)
    if any(sign.search(bare) for sign in (_PASTED, _CERTAIN_FLAG, _SHELL)):
        return True
    return len(_COLUMN.findall(bare)) > 1 or len(_PREFIX.findall(bare)) > 1


def is_prose(text: str) -> bool:
    """Whether a text is a sentence or more, such as an alert's description, in which quotation marks quote. What people type
    to find an exact phrase is short, and doesn't end with a full stop."""
    bare = _QUOTED.sub(" ", text)
    sentence = _FULL_STOP.search(bare)
    if sentence and len(bare[: sentence.end()].split()) >= SENTENCE_WORDS:
        return True
    return len(bare.split()) >= PROSE_WORDS


def is_option(word: str, before: str) -> bool:
    """Whether a `word` after a dash and the text `before` is likely an option of a command, which is named there."""
    words = before.split()
    if not words:
        return False
    last = words[-1]
    if "/" in last or "\\" in last or last in _COMMANDS:
        return True
    if word[0].isupper() and _VERB_NOUN.search(before):
        return True
    return word.casefold() in _LONG_FLAGS and any(each.rpartition("/")[2] in _COMMANDS for each in words)
