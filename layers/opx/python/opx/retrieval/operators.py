"""Finds operators in a question and validates their values; pasted text has none."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum

from msgspec import Struct

from opx.domain.ids import first_day
from opx.domain.knowledge import KnowledgeModel, Tier
from opx.errors import UnknownCategoryError
from opx.retrieval.question import required_groups, whole_terms

# -- text pasted from a log, a program or a terminal, in which quotes and dashes are no operators

MIN_EXCLUDED = 3
"""Fewest letters of a word that a dash excludes: shorter ones are bundled options (`-rf`, `-it`)."""

PROSE_WORDS = 10
SENTENCE_WORDS = 4
"""Fewest words outside of quotation marks of running text, and of a sentence with its full stop."""

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
"""`Error response from daemon: conflict: unable to ...`: a question may have one such prefix, an error has several."""

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
    """True if the text contains a line of a log, a program, a configuration or a terminal outside of quotes: people quote
    from such lines."""
    bare = _QUOTED.sub('""', text)
    if any(sign.search(bare) for sign in (_PASTED, _CERTAIN_FLAG, _SHELL)):
        return True
    return len(_COLUMN.findall(bare)) > 1 or len(_PREFIX.findall(bare)) > 1


def is_prose(text: str) -> bool:
    """True for a sentence or more, such as an alert's description, in which quotation marks are no operators. A search for
    an exact phrase is short, and doesn't end with a full stop."""
    bare = _QUOTED.sub(" ", text)
    sentence = _FULL_STOP.search(bare)
    if sentence and len(bare[: sentence.end()].split()) >= SENTENCE_WORDS:
        return True
    return len(bare.split()) >= PROSE_WORDS


def is_option(word: str, before: str) -> bool:
    """True if a `word` after a dash is likely an option of a command that is named in the text `before` it."""
    words = before.split()
    if not words:
        return False
    last = words[-1]
    if "/" in last or "\\" in last or last in _COMMANDS:
        return True
    if word[0].isupper() and _VERB_NOUN.search(before):
        return True
    return word.casefold() in _LONG_FLAGS and any(each.rpartition("/")[2] in _COMMANDS for each in words)


# -- operators

MAX_OPERATORS = 50
"""Operators of a question; later ones are searched as words."""


class OperatorKind(StrEnum):
    """Kinds of operators; the value of a filter is its name in a question."""

    PHRASE = "phrase"
    EXCLUDED_WORD = "excluded word"
    EXCLUDED_PHRASE = "excluded phrase"
    OPEN_QUOTE = "open quote"
    TAG = "tag"
    CATEGORY = "category"
    TIER = "tier"
    RESOURCE = "resource"
    SERVICE = "service"
    TITLE = "title"
    BEFORE = "before"
    AFTER = "after"


FILTERS = (
    OperatorKind.TAG,
    OperatorKind.CATEGORY,
    OperatorKind.TIER,
    OperatorKind.RESOURCE,
    OperatorKind.SERVICE,
    OperatorKind.TITLE,
    OperatorKind.BEFORE,
    OperatorKind.AFTER,
)


class Operator(Struct, frozen=True):
    """One operator, from `start` to `end` of the text; `quoted`: its value was quoted."""

    kind: OperatorKind
    value: str
    start: int
    end: int
    quoted: bool = False


_END = r"(?=[\s.,;:!?)]|\Z)"
_OPERATOR = re.compile(
    rf"""
    (?<![^\s(])(?P<name>{"|".join(FILTERS)}):(?:"(?P<quoted>[^"\n]*)"{_END}|(?P<value>\S*))
  | (?<=\S)(?P<gap>[^\S\n]+)-(?:"(?P<unwanted>[^"\n]*)"{_END}|(?P<word>[^\W\d_]\S*)|(?="))
  | (?<![^\s(])"(?:(?P<phrase>[^"\n]*)"{_END})?
""",
    re.VERBOSE | re.IGNORECASE,
)
_GROUPS = (
    (OperatorKind.EXCLUDED_PHRASE, "unwanted"),
    (OperatorKind.EXCLUDED_WORD, "word"),
    (OperatorKind.PHRASE, "phrase"),
)
_AFTER_VALUE = ".,;:!?)"
_QUOTES = str.maketrans("“”„‟″«»", '"""""""')
_UNSEEN = re.compile(
    "[\u00ad\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]+"
    "|[\u200b-\u200d]+(?=[ -~])|(?<=[ -~])[\u200b-\u200d]+"
)
"""Direction marks and invisible characters; zero-width spaces and joiners only beside ASCII, as other scripts need them."""


def normalised(text: str) -> str:
    """NFKC without invisible characters and lone surrogates, with straight double quotes. ASCII is unchanged."""
    if text.isascii():
        return text
    whole = text.encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFKC", _UNSEEN.sub("", whole)).translate(_QUOTES)


def operators(text: str) -> tuple[list[Operator], bool]:
    """Returns the operators in a normalised text, in order; and True if some were ignored as the text looks pasted.

    In pasted text, and in running text with quotations, only the filters at its very beginning and end count: those were
    typed before or after it.
    """
    found = [_operator(match) for match in _OPERATOR.finditer(text)]
    filters = [operator for operator in found if operator.kind in FILTERS]
    prose = len(filters) < len(found) and is_prose(text)
    if not found or not (prose or looks_pasted(text) or _has_option(text, found)):
        return found, False
    first = _leading(text, filters)
    last = _trailing(text, filters[len(first) :])
    return [*first, *last], len(first) + len(last) < len(found)


def _operator(match: re.Match[str]) -> Operator:
    start, end = match.span()
    if match["name"]:
        quoted = match["quoted"] is not None
        value = match["quoted"].strip() if quoted else match["value"].rstrip(_AFTER_VALUE)
        return Operator(OperatorKind(match["name"].lower()), value, start, end, quoted)
    start += len(match["gap"] or "")
    for kind, group in _GROUPS:
        if match[group] is not None:
            value = match[group].rstrip(_AFTER_VALUE) if kind is OperatorKind.EXCLUDED_WORD else match[group].strip()
            return Operator(kind, value, start, end)
    return Operator(OperatorKind.OPEN_QUOTE, "", start, end)


def _has_option(text: str, found: list[Operator]) -> bool:
    words = [operator for operator in found[:MAX_OPERATORS] if operator.kind is OperatorKind.EXCLUDED_WORD]
    return any(is_option(operator.value, text[: operator.start]) for operator in words)


def _leading(text: str, filters: list[Operator]) -> list[Operator]:
    """The filters at the beginning of the text."""
    at = count = 0
    while count < len(filters) and not text[at : filters[count].start].strip():
        at = filters[count].end
        count += 1
    return filters[:count]


def _trailing(text: str, filters: list[Operator]) -> list[Operator]:
    """The filters at the end of the text."""
    at, count = len(text), len(filters)
    while count and not text[filters[count - 1].end : at].strip():
        count -= 1
        at = filters[count].start
    return filters[count:]


# -- values of operators

MAX_PHRASE_CHARACTERS = 300
"""A longer phrase hardly occurs verbatim, the less as documents are searched in chunks."""

_EXCLUDABLE = re.compile(r"[^\W\d_](?:[\w.'’-]*\w)?\Z")
_TIERS = tuple(map(str, Tier))


def problem(operator: Operator, knowledge: KnowledgeModel) -> str:
    """The reason why an operator is invalid; "" if it is valid."""
    match operator.kind:
        case OperatorKind.OPEN_QUOTE:
            return "the quote is not closed, or touches a word"
        case OperatorKind.PHRASE | OperatorKind.EXCLUDED_PHRASE:
            return _problem_of_phrase(operator.value)
        case OperatorKind.EXCLUDED_WORD:
            return _problem_of_exclusion(operator.value)
    return _problem_of_filter(operator, knowledge)


def paths_of(value: str, knowledge: KnowledgeModel) -> tuple[str, ...]:
    """Paths of a category and of all its subcategories; none if it doesn't exist."""
    try:
        return knowledge.within(value.strip("/").casefold())
    except UnknownCategoryError:
        return ()


def _problem_of_phrase(value: str) -> str:
    if not any(character.isalnum() for character in value):
        return "there is no word between the quotes"
    return f"a phrase has at most {MAX_PHRASE_CHARACTERS} characters" if len(value) > MAX_PHRASE_CHARACTERS else ""


def _problem_of_exclusion(word: str) -> str:
    if not _EXCLUDABLE.match(word):
        return 'only words and "quoted phrases" can be excluded'
    if len(word) < MIN_EXCLUDED:
        return f'so short a word is rather an option of a command: -"{word}" excludes it'
    return "" if whole_terms(word) else "a word that is everywhere can't be excluded"


def _problem_of_filter(operator: Operator, knowledge: KnowledgeModel) -> str:
    kind, value = operator.kind, operator.value
    if not value:
        return f"{kind}: needs a value right after it"
    if not operator.quoted and ('"' in value or value.startswith("//")):
        return "the quote is not closed, or touches a word" if '"' in value else "this looks like an address"
    return _problem_of_value(kind, value, knowledge)


def _problem_of_value(kind: OperatorKind, value: str, knowledge: KnowledgeModel) -> str:
    match kind:
        case OperatorKind.BEFORE | OperatorKind.AFTER if first_day(value) is None:
            return "not a day, month or year such as 2026-03-31, 2026-03 or 2026"
        case OperatorKind.TIER if value.casefold() not in _TIERS:
            return f"unknown tier; there are {', '.join(_TIERS)}"
        case OperatorKind.CATEGORY if not paths_of(value, knowledge):
            return "unknown category"
        case OperatorKind.TITLE if not required_groups(value):
            return "there is no word in it to look for"
    return ""
