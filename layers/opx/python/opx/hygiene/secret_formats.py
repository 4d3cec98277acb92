"""What credentials look like: the formats that their issuers document.

A format with `hints` is looked for only where one of them is: literals in lower case, at least one of which is in every
text that the pattern matches. Each pattern takes linear time or a bounded number of steps a character: a line may have
64 Ki characters that an attacker chose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class SecretFormat:
    """`kind` stands in for the secret, `label` names it to people. The group `secret` is what is masked.

    `chosen`: people may have made it up, so that little may be told of it. `judged`: what matches is a secret only if
    it looks random.
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
"""One of them is in the name of whatever is assigned a secret."""

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
    """All formats, the most telling first: of two that match the same text, the first one's name is used."""
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
