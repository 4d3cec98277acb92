"""Formats of tokens and keys that their issuers document.

A row names the issuer's page. Rows marked "detect-secrets" follow the patterns of detect-secrets 1.5.0 (Yelp, Apache-2.0,
the licence of this program): its plugins `artifactory`, `discord`, `mailchimp`, `softlayer`, `square_oauth` and `twilio`.
"""

from __future__ import annotations

import re
from functools import cache

from opx.hygiene.secret_formats import SecretFormat

_RARE = re.compile(
    r"(?<![a-z0-9])(?:sk[a-f0-9]{32}|key-[a-f0-9]{32}|[a-f0-9]{32}-us\d|pat[a-z0-9]{14}\.[a-f0-9]{64}|[mno][\w-]{23,25}\.[\w-]{6}\.[\w-]{27}"
    r"|oy2[a-z0-9]{43}|cio[a-z0-9]{32}|api-[a-z0-9]{26})|\*[0-9a-f]{40}"
)
"""Tokens of formats without a literal that other text rarely has, in lower case."""
LEAST_RARE = 28
"""Characters that each of them exceeds, and no hint does."""

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
    # -- hosting, builds and code
    ("Azure DevOps docs, Use personal access tokens", "azure-devops-token", "Azure DevOps token", "azdo",
     r"(?<![A-Za-z0-9])[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])"),
    ("GitLab docs, Registering runners", "gitlab-token", "GitLab runner token", "gr1348941", r"\bGR1348941[A-Za-z0-9_-]{20}"),
    ("Atlassian docs, App passwords; Access tokens", "atlassian-token", "Atlassian token", "atbb atctt3",
     r"\b(?:ATBB[A-Za-z0-9]{24}[A-F0-9]{8}|ATCTT3[A-Za-z0-9_=-]{100,300})"),
    ("Heroku docs, API keys", "heroku-key", "Heroku key", "hrku-", r"\bHRKU-[A-Za-z0-9_-]{36,80}"),
    ("Fly.io docs, Access tokens", "flyio-token", "Fly.io token", "fm2_ fm1r_ fo1_",
     r"\b(?:fm2_[A-Za-z0-9+/]{60,2000}={0,3}|fm1r_[A-Za-z0-9+/]{60,2000}={0,3}|fo1_[A-Za-z0-9_-]{43})"),
    ("Netlify docs, Personal access tokens", "netlify-token", "Netlify token", "nfp_", r"\bnfp_[A-Za-z0-9]{36,44}\b"),
    ("Buildkite docs, API access tokens", "buildkite-token", "Buildkite token", "bkua_", r"\bbkua_[a-z0-9]{40}\b"),
    ("CircleCI docs, API tokens", "circleci-token", "CircleCI token", "ccipat_ ccipprj_",
     r"\bCCIP(?:AT|RJ)_[A-Za-z0-9]{20,24}_[a-f0-9]{40}\b"),
    ("Harness docs, API keys", "harness-token", "Harness token", "pat. sat.",
     r"\b[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b"),
    ("Octopus docs, API keys", "octopus-key", "Octopus key", "", r"(?<![A-Za-z0-9-])API-[A-Z0-9]{26}(?![A-Za-z0-9])"),
    ("Pulumi docs, Access tokens", "pulumi-token", "Pulumi token", "pul-", r"\bpul-[a-f0-9]{40}\b"),
    ("OpenShift docs, OAuth tokens", "openshift-token", "OpenShift token", "sha256~", r"\bsha256~[A-Za-z0-9_-]{43}"),
    ("Supabase docs, Access tokens", "supabase-token", "Supabase token", "sbp_", r"\bsbp_[a-z0-9]{40}\b"),
    ("PlanetScale docs, Service tokens; Passwords", "planetscale-token", "PlanetScale token", "pscale_",
     r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}"),
    ("Cloudflare docs, Origin CA keys", "cloudflare-key", "Cloudflare origin CA key", "v1.0-",
     r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b"),
    ("Alibaba Cloud docs, AccessKey pair", "alibaba-key", "Alibaba Cloud access key id", "ltai",
     r"(?<![A-Za-z0-9])LTAI[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),
    ("Tailscale docs, Key prefixes", "tailscale-key", "Tailscale key", "tskey-",
     r"\btskey-(?:[a-z]{2,12}-)?[A-Za-z0-9]{6,20}-[A-Za-z0-9]{20,64}"),
    ("RubyGems docs, API keys", "rubygems-key", "RubyGems key", "rubygems_", r"\brubygems_[a-f0-9]{48}\b"),
    ("NuGet docs, API keys", "nuget-key", "NuGet key", "", r"(?<![A-Za-z0-9])oy2[a-z0-9]{43}(?![A-Za-z0-9])"),
    ("Cargo Book, Publishing: API tokens", "crates-token", "Cargo registry token", "",
     r"(?<![A-Za-z0-9])cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("JFrog docs, API keys; Reference tokens (detect-secrets)", "artifactory-key", "Artifactory key", "akcp cmvmdgtu",
     r"\b(?:AKCp[A-Za-z0-9]{68,70}|cmVmdGtu[A-Za-z0-9]{56})(?![A-Za-z0-9])"),
    ("SonarQube docs, Tokens", "sonarqube-token", "SonarQube token", "sqp_ squ_ sqa_", r"\bsq[pua]_[a-z0-9]{40}\b"),
    ("kubeadm docs, Bootstrap tokens", "bootstrap-token", "bootstrap token", "token",
     r"(?i:\btoken)(?: create)?[\"']?[ =:]{1,3}[\"']?(?P<secret>[a-z0-9]{6}\.[a-z0-9]{16})(?![A-Za-z0-9.])"),
    ("Docker docs, Join tokens; K3s docs, token", "join-token", "join token of a cluster", "swmtkn-1- ::server: ::node:",
     r"\b(?:SWMTKN-1-[a-z0-9]{40,60}-[a-z0-9]{20,30}|K10[a-f0-9]{64}::(?:server|node):[A-Za-z0-9]{16,128})"),
    # -- observation and messages
    ("Grafana Cloud docs, Access policy tokens", "grafana-token", "Grafana Cloud token", "glc_",
     r"\bglc_[A-Za-z0-9+/]{32,400}={0,2}"),
    ("Dynatrace docs, Token format", "dynatrace-token", "Dynatrace token", "dt0c01. dt0s01.",
     r"\bdt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}\b"),
    ("Sentry docs, Auth tokens", "sentry-token", "Sentry token", "sntrys_ sntryu_",
     r"\bsntry[su]_[A-Za-z0-9+/=_]{40,400}"),
    ("Postman docs, API keys", "postman-key", "Postman key", "pmak-", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),
    ("Doppler docs, Token formats", "doppler-token", "Doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
     r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}\b"),
    ("1Password docs, Service accounts", "onepassword-token", "1Password token", "ops_eyj",
     r"\bops_eyJ[A-Za-z0-9+/_-]{200,2000}={0,3}"),
    ("Twilio docs, API keys (detect-secrets)", "twilio-key", "Twilio key", "",
     r"(?<![A-Za-z0-9])SK[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("Mailgun docs, API keys", "mailgun-key", "Mailgun key", "", r"(?<![A-Za-z0-9-])key-[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("Mailchimp docs, API keys (detect-secrets)", "mailchimp-key", "Mailchimp key", "",
     r"(?<![A-Za-z0-9])[0-9a-f]{32}-us\d{1,2}(?![A-Za-z0-9])"),
    ("Brevo docs, API keys", "brevo-key", "Brevo key", "xkeysib- xsmtpsib-",
     r"\bx(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),
    ("Linear docs, API keys", "linear-key", "Linear key", "lin_api_ lin_oauth_", r"\blin_(?:api|oauth)_[A-Za-z0-9]{40,64}\b"),
    ("Notion docs, Authorization", "notion-token", "Notion token", "ntn_", r"\bntn_[A-Za-z0-9]{40,60}\b"),
    ("Airtable docs, Personal access tokens", "airtable-token", "Airtable token", "",
     r"(?<![A-Za-z0-9])pat[A-Za-z0-9]{14}\.[a-f0-9]{64}(?![A-Za-z0-9])"),
    ("Figma docs, Access tokens", "figma-token", "Figma token", "figd_ figu_", r"\bfig[du]_[A-Za-z0-9_-]{40,60}"),
    ("Square docs, Access tokens (detect-secrets)", "square-token", "Square token", "sq0csp- sq0atp- sq0idp-",
     r"\bsq0(?:csp|atp)-[A-Za-z0-9_-]{22,43}"),
    ("Discord docs, Bot tokens (detect-secrets)", "discord-token", "Discord bot token", "",
     r"(?<![A-Za-z0-9_.-])[MNO][A-Za-z\d_-]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,38}(?![A-Za-z0-9_.-])"),
    ("Replicate, Groq, Perplexity and xAI docs, API keys", "model-api-key", "key of a model's API", "r8_ gsk_ pplx- xai-",
     r"\b(?:r8_[A-Za-z0-9]{37}|gsk_[A-Za-z0-9]{52}|pplx-[A-Za-z0-9]{48,56}|xai-[A-Za-z0-9]{80})\b"),
    ("SoftLayer docs (detect-secrets)", "softlayer-key", "SoftLayer key", "api.softlayer.com/",
     r"api\.softlayer\.com/soap/v3(?:\.1)?/(?P<secret>[a-z0-9]{64})"),
    # -- addresses that are secrets
    ("Discord docs, Webhooks", "webhook-url", "webhook address", "/api/webhooks/",
     r"discord(?:app)?\.com/api/webhooks/\d{10,25}/(?P<secret>[A-Za-z0-9_-]{50,90})"),
    ("Microsoft Teams docs, Incoming webhooks", "webhook-url", "webhook address", "/incomingwebhook/",
     r"/IncomingWebhook/(?P<secret>[a-z0-9]{32}/[0-9a-f-]{36}(?:/[A-Za-z0-9_-]{20,60})?)"),
    ("Google Chat docs, Webhooks", "webhook-url", "webhook address", "chat.googleapis.com/",
     r"chat\.googleapis\.com/[^\s\"'<>]{1,80}\?key=[^\s&\"'<>]{1,80}&token=(?P<secret>[A-Za-z0-9_%-]{20,80})"),
    ("Mattermost and Rocket.Chat docs, Incoming webhooks", "webhook-url", "webhook address", "/hooks/",
     r"://[^\s/\"'<>]{1,100}/hooks/(?P<secret>[a-z0-9]{26}(?![A-Za-z0-9/-])|[A-Za-z0-9]{17,24}/[A-Za-z0-9]{40,70})"),
    ("Zapier and IFTTT docs, Webhooks", "webhook-url", "webhook address", "hooks.zapier.com/ maker.ifttt.com/",
     (r"(?:hooks\.zapier\.com/hooks/catch/\d{1,10}/|maker\.ifttt\.com/trigger/[^\s/]{1,40}/(?:json/)?with/key/)"
     r"(?P<secret>[A-Za-z0-9_-]{6,60})")),
    # -- hashes of passwords
    ("crypt(5)", "password-hash", "hash of a password",
     "$1$ $2a$ $2b$ $2y$ $5$ $6$ $7$ $8$ $9$ $y$ $gy$ $apr1$ $argon2",
     (r"(?<![A-Za-z0-9$])(?:\$(?:1|apr1)\$[A-Za-z0-9./]{1,8}\$[A-Za-z0-9./]{22}|\$2[abxy]\$\d\d\$[A-Za-z0-9./]{53}"
     r"|\$[56]\$(?:rounds=\d{1,9}\$)?[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{43,86}|\$g?y\$[A-Za-z0-9./]{2,6}\$[A-Za-z0-9./]{1,86}\$[A-Za-z0-9./]{43}"
     r"|\$[89]\$[A-Za-z0-9./]{14}\$[A-Za-z0-9./]{43}|\$argon2id?\$[^\s\"']{20,300})")),
    ("Juniper docs, Obfuscated passwords", "password-hash", "obfuscated password", "$9$",
     r"(?<![A-Za-z0-9$])\$9\$[A-Za-z0-9./-]{6,120}(?=[\"'\s;])"),
    ("RFC 2307, userPassword; slapd-pw", "password-hash", "hash of a password", "{ssha {sha} {smd5} {crypt} {pbkdf2",
     r"\{(?:SSHA\d{0,3}|SHA|SMD5|CRYPT|PBKDF2[A-Z0-9-]*)\}[A-Za-z0-9+/=$.]{16,400}"),
    ("PostgreSQL docs, Password authentication", "password-hash", "hash of a password", "scram-sha-256$ 'md5 \"md5",
     (r"\bSCRAM-SHA-256\$\d{1,9}:[A-Za-z0-9+/=]{8,60}\$[A-Za-z0-9+/=]{20,60}:[A-Za-z0-9+/=]{20,60}"
     r"|(?<=[\"'])md5[0-9a-f]{32}(?=[\"'])")),
    ("MySQL docs, mysql_native_password", "password-hash", "hash of a password", "",
     r"(?<![A-Za-z0-9*])\*[0-9A-F]{40}(?![0-9A-Za-z])"),
    ("MS-NLMP, hashes of SAM", "password-hash", "hash of a password", ":::",
     r":\d{3,10}:[0-9a-fA-F]{32}:(?P<secret>[0-9a-fA-F]{32}):::"),
)  # fmt: skip


@cache
def issued_formats() -> tuple[SecretFormat, ...]:
    """The formats of issuers, in the order in which they are tried."""
    return tuple(SecretFormat(kind, label, tuple(hints.split()), pattern) for _, kind, label, hints, pattern in _ISSUED)


def rare_tokens(lowered: str) -> frozenset[str]:
    """Passages of lower-case text that formats without hints may match."""
    return frozenset(_RARE.findall(lowered))
