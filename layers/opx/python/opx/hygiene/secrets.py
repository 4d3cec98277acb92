"""Finds credentials in text by the formats that their issuers document, and masks them by kind and fingerprint.

A format with `hints` is searched only where one of them occurs: literals in lower case, at least one of which is in every
text that the pattern matches. Each pattern takes linear time or a bounded number of steps a character: a line may have
64 Ki characters that an attacker chose.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from opx.hygiene.private_keys import KeyBlock, PrivateKeys

_DIGITS, _DIGITS_OF_CHOSEN = 4, 2
"""Hex digits of a fingerprint. Fewer for secrets chosen by people, where every bit helps to guess them."""

_OF_NO_VALUE = re.compile(
    r"(?i)(?:next|page|paging|pagination|continuation|sync|delta|resume|start(?:ing)?|marker|cursor|idempotency|request)"
    r"[ _.-]?token\W{0,14}$"
)
"""Names of cursors and request ids, before their value."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BASIC = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}")

MIN_LENGTH = 8
MIN_BITS = 2.5
"""Shannon entropy of a value's characters, in bits each. Eight different characters have 3."""

_OBVIOUS = re.compile(r"(?i)example|placeholder|redacted|masked|x{4}|\*{3}|\.{3}|…|1234567|abcdef|your[-_]|change.?me")
_PLACEHOLDERS = re.compile(
    r"(?i)change.?(?:it|this)|replace|dummy|sample|fake|insert|your|\bmy[-_]?|xxx|todo|foo.?bar|hunter2|qwerty|letmein"
    r"|pass(?:word|wd)?[-_.]?\d{0,4}$|^(?:the|some|new|old|db|root|admin|user|super|test)?[-_]?(?:secret|token|pass|pwd)"
    r"|^(?:none|null|true|false|undefined)$|correct.?horse"
)
_REFERENCE = re.compile(
    r"(?i)^(?:[$@%&!~^*?#<{\[(/\\]|\.{0,2}/|arn:|[a-z0-9+.-]{2,20}://|file:|vault:|ssm:|op:|ref\+|env[.:]|secretsmanager|projects/|kms"
    r"|sha\d{1,3}[-:]|md5:|base64:|process\.|os\.|self\.|data\.|var\.)"
    r"|::|\$\{|\{\{|%\(|\.(?:ya?ml|json|txt|pem|crt|key|conf|py|go|js|sh)$"
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IDENTIFIER = re.compile(
    r"(?i)(?:CVE|GHSA|CWE|KB|RFC|ISO|RHSA|USN)-?\d[\w-]*|v?\d+(?:[.:_-]\d+)+\w*|\d{4}-\d\d-\d\d\S*"
)
_WORDS = re.compile(r"[-_./:@\s=+]+")
_WORD = re.compile(
    r"[A-Za-z]?[a-z]*\d{0,3}|[A-Z]+\d{0,3}|\d{1,6}|[A-Z]?[a-z]+(?:[A-Z][a-z]{2,}){0,6}\d{0,2}|v\d+[a-z]*\d?"
)


@dataclass(frozen=True, slots=True)
class SecretFormat:
    """A format of secrets. `kind` replaces the secret, `label` is its name for people. The group `secret` is masked.

    `chosen`: people may have made it up, so that little of it may be disclosed. `judged`: a match is a secret only if it
    looks random.
    """

    kind: str
    label: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    chosen: bool = False
    judged: bool = False


# Issuer's page | kind | label | hints | pattern. Lengths that pages don't promise are lower bounds.
_ISSUED: tuple[tuple[str, str, str, str, str], ...] = (
    ("AWS IAM user guide, IAM identifiers, unique ID prefixes", "aws-access-key", "AWS access key id",
     "akia asia abia", r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("GitHub docs, About authentication to GitHub, token formats", "github-token", "GitHub token",
     "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"\b(?:gh[pousr]_[A-Za-z0-9_]{36,251}|github_pat_[A-Za-z0-9_]{36,250})"),
    ("GitLab docs, Token overview, token prefixes", "gitlab-token", "GitLab token",
     "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat- glffct- gloas-",
     r"\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct|oas)-[A-Za-z0-9_.-]{20,300}"),
    ("Slack docs, Tokens", "slack-token", "Slack token", "xoxb- xoxp- xoxa- xoxr- xoxe- xoxs- xoxe. xapp-",
     r"\b(?:xox[abeprs]-[A-Za-z0-9-]{10,250}|xoxe\.xox[bp]-[A-Za-z0-9-]{10,250}|xapp-\d-[A-Za-z0-9-]{10,250})"),
    ("Slack docs, Sending messages using incoming webhooks", "slack-webhook", "Slack webhook", "hooks.slack.com/",
     r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/]{20,200})"),
    ("Stripe docs, API keys; Webhooks", "stripe-key", "Stripe key", "sk_live_ rk_live_ sk_test_ rk_test_ whsec_",
     r"\b(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,250}|whsec_[A-Za-z0-9+/=]{24,100})"),
    ("Google Cloud docs, Manage API keys", "google-api-key", "Google API key", "aiza",
     r"(?<![A-Za-z0-9_-])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    ("Google Identity docs, Using OAuth 2.0", "google-oauth-secret", "Google OAuth secret", "gocspx- ya29. 1//0",
     r"(?:GOCSPX-[A-Za-z0-9_-]{28}|\bya29\.[A-Za-z0-9_-]{30,2000}|\b1//0[A-Za-z0-9_-]{40,500})"),
    ("Azure docs, Configure Azure Storage connection strings; Service Bus, shared access signature", "azure-key",
     "Azure key", "accountkey sharedaccesskey", r"(?i:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{40,90}=*)"),
    ("Azure docs, Create a service SAS, sig", "azure-signature", "Azure shared access signature", "sig=",
     r"[?&;]sig=(?P<secret>[A-Za-z0-9%+/]{42,120}=?)"),
    ("Microsoft Purview docs, Azure AD client secret", "azure-client-secret", "Azure client secret", "q~",
     r"(?<![A-Za-z0-9_.~-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"),
    ("npm docs, About access tokens", "npm-token", "npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI docs, API tokens", "pypi-token", "PyPI token", "pypi-ag", r"\bpypi-Ag[A-Za-z0-9_-]{50,500}"),
    ("RFC 7519, JSON Web Token", "jwt", "JSON Web Token", "eyj",
     r"\beyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{16,2000}"),
    ("OpenAI, Anthropic and Hugging Face docs, API keys", "model-api-key", "key of a model's API",
     "sk-proj- sk-ant- sk-svcacct- sk-admin- t3blbkfj hf_",
     (r"\b(?:sk-(?:proj|ant|svcacct|admin)-[A-Za-z0-9_-]{20,300}|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"
     r"|hf_[A-Za-z0-9]{34}\b)")),
    ("HashiCorp docs, Vault tokens; HCP Terraform API tokens", "hashicorp-token", "HashiCorp token",
     "hvs. hvb. hvr. .atlasv1.", r"\b(?:hv[sbr]\.[A-Za-z0-9_-]{24,300}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70})"),
    ("Docker docs, Access tokens; DigitalOcean docs, Personal access tokens", "hosting-token",
     "Docker or DigitalOcean token", "dckr_pat_ dckr_oat_ dop_v1_ doo_v1_ dor_v1_",
     r"\b(?:dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,100}|do[opr]_v1_[a-f0-9]{64})"),
    ("Grafana docs, Service accounts; Atlassian, Databricks, New Relic docs, API tokens", "service-token",
     "token of a service", "glsa_ atatt3 dapi nrak-",
     r"\b(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|ATATT3[A-Za-z0-9_=-]{100,300}|dapi[a-f0-9]{32}|NRAK-[A-Z0-9]{27})"),
    ("Twilio SendGrid docs, API keys; Shopify docs, Access tokens", "service-key", "key of a service",
     "sg. shpat_ shpca_ shppa_ shpss_",
     r"\b(?:SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32})"),
    ("Telegram Bot API, Authorizing your bot; age specification", "bot-or-age-key", "Telegram bot token or age key",
     ":aa age-secret-key-1", r"(?:\b\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])|AGE-SECRET-KEY-1[A-Z0-9]{58})"),
)  # fmt: skip

_NAMES = (
    r"(?:pass(?:word|wd|phrase|code|wort)?|mot de passe|kennwort|contraseña|senha|pwd|secret|token|api[ _-]?key"
    r"|access[ _-]?key|secret[ _-]?key|private[ _-]?key"
    r"|signing[ _-]?key|encryption[ _-]?key|account[ _-]?key|shared[ _-]?key|auth[ _-]?key|credentials?)"
)
_VALUE = r"""[^\s"'`,;<>(){}\[\]|\\]{8,512}"""

CONTEXT_HINTS = ("pass", "pwd", "secret", "token", "key", "credential", "kennwort", "contrase", "senha")
"""Literals, one of which is in the name of every variable or field with a secret."""

_AFTER_NAME = (  # of AWS's secret keys
    r"(?i:secret[ _-]?access[ _-]?key)[^\n]{0,24}?(?<![A-Za-z0-9/+=])(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)
_URL = r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<user>[^\s/:@\"'<>`]{0,100}):(?P<secret>[^\s/\"'<>`]{1,256})@(?=[A-Za-z0-9._\[-])"
_CONNECTION = (
    r"(?i)\b(?:user id|uid|user|username|server|data source|host|hostaddr|database|dbname)\s?=\s?[^;\n=\s]{1,80}[;\s]"
    r"[^\n]{0,200}?"
    r"\b(?:password|pwd)\s?=\s?[\"']?(?P<secret>[^;\"'\s]{3,128})"
)
_HEADER = (
    r"(?i)(?:\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:(?:bearer|basic|token|digest|apikey)\s{1,3})?"
    r"|\bbearer\s{1,3})[\"']?(?P<secret>[A-Za-z0-9._~+/-]{16,4000}=*)"
)
_ASSIGNMENT = (
    rf"(?i){_NAMES}[0-9]?[\"'`*_\])\\]{{0,4}}\s{{0,8}}(?:=>|:=|==|=|:|\|)\s{{0,8}}[*_\\]{{0,2}}"
    rf"(?:[\"'`](?P<quoted>[^\"'`\n]{{8,512}}?)\\{{0,2}}[\"'`]|(?P<bare>{_VALUE}))"
)
_OPTION = (
    rf"(?i)(?<![A-Za-z0-9-])--?[a-z-]{{0,30}}{_NAMES}\s{{1,3}}[\"']?(?P<secret>{_VALUE})"
    r"|\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,64}:(?P<password>[^\s:\"']{8,128})"
)


@cache
def secret_formats() -> tuple[SecretFormat, ...]:
    """All formats, the most specific first: of two that match the same text, the first one's name is used."""
    issued = [
        SecretFormat(kind, label, tuple(hints.split()), re.compile(pattern))
        for _, kind, label, hints, pattern in _ISSUED
    ]
    return (
        *issued,
        SecretFormat("aws-secret-key", "AWS secret access key", ("secret",), re.compile(_AFTER_NAME)),
        SecretFormat("url-password", "password in a URL", ("@",), re.compile(_URL), chosen=True),
        SecretFormat(
            "connection-password", "password in a connection string", ("pass", "pwd"), re.compile(_CONNECTION),
            chosen=True,
        ),
        SecretFormat("authorization", "authorization header", ("bearer", "authorization"), re.compile(_HEADER), judged=True),
        SecretFormat("assigned-secret", "secret value", CONTEXT_HINTS, re.compile(_ASSIGNMENT), chosen=True, judged=True),
        SecretFormat("option-secret", "secret on a command line", (*CONTEXT_HINTS, "curl"), re.compile(_OPTION),
                     chosen=True, judged=True),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """Position of a secret: the part that is masked, and `since`, the start of the whole match."""

    format: SecretFormat
    since: int
    start: int
    end: int


def mask(text: str) -> tuple[str, tuple[KeyBlock, ...]]:
    """Returns the text with its secrets masked, and the masked secrets. Idempotent."""
    masker = Masker()
    masked = [piece for number, line in enumerate(_LINE.findall(text), start=1) for piece in masker.feed(line, number)]
    masked.extend(masker.rest())
    return "".join(masked), tuple(masker.findings)


class Masker:
    """Masks text that is read line by line, in bounded memory."""

    def __init__(self) -> None:
        self.findings: list[KeyBlock] = []
        self._keys = PrivateKeys()
        self._line = 1

    @property
    def is_within_key(self) -> bool:
        """True if the next line may continue a private key."""
        return self._keys.is_open

    def feed(self, text: str, line: int, hints: Iterable[str] | None = None) -> Iterator[str]:
        """Yields the complete text up to this line, masked, in lines. `hints` as in `find`."""
        self._line = line
        if not self._keys.is_open and "PRIVATE KEY" not in text:
            yield mask_line(text, line, self.findings, hints)
            return
        for piece in _LINE.findall("".join(self._keys.feed(text, line))):
            yield mask_line(piece, line, self.findings, None)
        self._note_keys()

    def rest(self) -> Iterator[str]:
        """Yields the text that was held because a private key seemed to begin in it."""
        for piece in _LINE.findall("".join(self._keys.rest())):
            yield mask_line(piece, self._line, self.findings)
        self._note_keys()

    def _note_keys(self) -> None:
        self.findings.extend(self._keys.found)
        self._keys.found.clear()


def mask_line(text: str, line: int, findings: list[KeyBlock], hints: Iterable[str] | None = None) -> str:
    """Masks all secrets but private keys; appends them to `findings`.

    `hints`: those of the formats' hints that the text may contain.
    """
    parts: list[str] = []
    position = 0
    for found in find(text, hints):
        secret = text[found.start : found.end]
        finding = KeyBlock(found.format.kind, found.format.label, _fingerprint(secret, found.format), line)
        findings.append(finding)
        parts += (text[position : found.start], finding.mask)
        position = found.end
    return "".join((*parts, text[position:])) if parts else text


def find(text: str, hints: Iterable[str] | None = None) -> list[FoundSecret]:
    """The secrets in `text` other than private keys, in order, not overlapping."""
    lowered = text.lower()
    found: list[FoundSecret] = []
    present = frozenset([hint for hint in (_all_hints() if hints is None else hints) if hint in lowered])
    for form in _formats_with(present):
        found.extend(_matches(form, text))
    kept: list[FoundSecret] = []
    for each in found:  # the most specific first
        if not any(each.start < other.end and other.start < each.end for other in kept):
            kept.append(each)
    return sorted(kept, key=lambda each: each.start)


@cache
def _all_hints() -> tuple[str, ...]:
    return tuple({hint for form in secret_formats() for hint in form.hints})


@lru_cache(maxsize=1024)
def _formats_with(hints: frozenset[str]) -> tuple[SecretFormat, ...]:
    """Formats that may match text with these hints, in their order."""
    return tuple(form for form in secret_formats() if not hints.isdisjoint(form.hints))


def _matches(form: SecretFormat, text: str) -> Iterator[FoundSecret]:
    for match in form.pattern.finditer(text):
        start, end = _span(match)
        if _is_secret(form, match, text[start:end], text):
            yield FoundSecret(form, match.start(), start, end)


def _span(match: re.Match[str]) -> tuple[int, int]:
    """The span of the group that matched, else of the whole match."""
    for name in match.re.groupindex:
        if name != "user" and match[name] is not None:
            return match.span(name)
    return match.span()


def _is_secret(form: SecretFormat, match: re.Match[str], value: str, text: str) -> bool:
    if form.kind == "authorization":
        password = _basic_password(value)
        return looks_random(value) if password is None else not is_placeholder(password)
    if form.judged:
        start, _ = _span(match)
        before = text[max(0, start - 80) : start]
        return looks_random(value) and not _OF_NO_VALUE.search(before)
    if form.chosen:
        user = match.groupdict().get("user") or ""
        return not is_placeholder(value) and value.lower() != user.lower()
    return not is_obvious_placeholder(value)


def _basic_password(value: str) -> str | None:
    """The password in base64 of `user:password`; None for anything else."""
    if not _BASIC.fullmatch(value):
        return None
    try:
        user, _, password = base64.b64decode(value, validate=True).decode("ascii").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return password if user and password else None


def _fingerprint(secret: str, form: SecretFormat) -> str:
    digits = _DIGITS_OF_CHOSEN if form.chosen else _DIGITS
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def is_obvious_placeholder(value: str) -> bool:
    """True for a value that is certainly no secret, even where its form is right."""
    return bool(_OBVIOUS.search(value)) or len(set(value)) < 4


def is_placeholder(value: str) -> bool:
    """True for placeholders of documentation and for references to a stored secret."""
    return is_obvious_placeholder(value) or bool(_PLACEHOLDERS.search(value) or _REFERENCE.search(value))


def is_hash_or_id(value: str) -> bool:
    """True for UUIDs, versions, dates and advisory numbers."""
    return bool(_UUID.fullmatch(value) or _IDENTIFIER.fullmatch(value))


def looks_random(value: str) -> bool:
    """True if a value is long and mixed enough to be a secret: no words, names, versions or placeholders."""
    value = value.strip().rstrip(".:,")
    if len(value) < MIN_LENGTH or " " in value or not value.isascii() or is_placeholder(value) or is_hash_or_id(value):
        return False
    if all(_WORD.fullmatch(part) for part in _WORDS.split(value) if part):
        return False
    return _classes(value) >= 2 and _entropy(value) >= MIN_BITS


def _classes(value: str) -> int:
    """Number of character classes: lower case, upper case, digits, marks other than those that join words."""
    tests = (str.islower, str.isupper, str.isdigit, lambda c: not c.isalnum() and c not in "-_./: ")
    return sum(any(test(character) for character in value) for test in tests)


def _entropy(value: str) -> float:
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
