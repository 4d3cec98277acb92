"""Formats in which a file, a command or a device states that a value is a password, so that it may be any word.

A row is: kind, label, hints, judgement, pattern. `{value}` in a pattern stands for a value in quotes or without them.
"""

from __future__ import annotations

import re
from functools import cache

from opx.hygiene.secret_formats import PASSWORD_HINTS, PASSWORDS, Judgement, SecretFormat

_QUOTED = r"""'(?P<qa>[^'\n]{2,128})'|\\?"(?P<qb>[^"\n]{2,128}?)\\?\""""
_ARGUMENT = _QUOTED + r"""|(?P<qc>[^\s'"`|&<>();,]{2,128})"""

FILE, COMMAND, DEVICE, PROSE, COMMUNITY = (
    ("stated-password", "password"),
    ("command-password", "password on a command line"),
    ("device-password", "password or key of a device"),
    ("prose-password", "password in a sentence"),
    ("snmp-community", "SNMP community"),
)
_KIND_OF_KEY = ("stated-key", "secret key")
_S, _N, _C, _R, _F, _B = (
    Judgement.STATED,
    Judgement.NAMED,
    Judgement.CLEAR,
    Judgement.RANDOM,
    Judgement.FORM,
    Judgement.BASIC,
)
_P = "|".join(PASSWORD_HINTS)
_NAME = rf"(?:[\w.$/-]{{0,60}}[\w.$/-])??(?<![a-z]){PASSWORDS}\d?"
_KEY = rf"(?:\b|_){PASSWORDS}\d?"
"""The last word of a name, whatever stands before it."""
_CAMEL = r"(?:[a-z0-9_.\]]|\b)(?-i:Pass(?:word|wd|phrase)?|Pwd|PASS(?:WORD|WD|PHRASE)?|password|passwd|passphrase)\d?"
_IN_PROSE = PASSWORDS.replace("|pass|", "|")
_OF = r"(?:\s(?:of|for|on|at|is for|von|für|zum|de|del|du|per)\s[^\n:.;,]{1,40}?)?"

Row = tuple[tuple[str, str], str, Judgement, str]

_QUERIES: tuple[Row, ...] = (  # before other assignments, which don't end at `&`
    (FILE, _P, _S, rf"(?i)[?&;](?:{_KEY})=(?P<secret>[^\s&;\"'`<>]{{2,128}})"),
    (FILE, "token|secret|key", _S, r"(?i)[?&](?:token|secret|api_?key|access_token|auth)=(?P<secret>[^\s&\"'`<>]{6,200})"),
)  # fmt: skip

_ROWS: tuple[Row, ...] = (
    # -- files: a name, a separator, and a value in quotes or up to the end of the line
    (FILE, _P, _S, rf"(?i)(?:{_KEY}|{_CAMEL})[\"'*_\])\\]{{0,4}}\s{{0,8}}(?:=>|:=|==?|:)\s{{0,8}}(?:N|r|u|b)?{{quoted}}"),
    (FILE, _P, _S, rf"(?i)(?:{_KEY}|{_CAMEL})[\"'*_\])`\\]{{0,4}}\s{{0,8}}(?:=>|:=|=|:)[*_]{{0,2}}\s{{0,8}}`(?P<secret>[^`\n]{{2,128}})`"),
    (FILE, _P, _S, rf"(?i)^[\s>#*|-]{{0,40}}[\w.$/\[\]*: -]{{0,60}}(?:{_KEY}|{_CAMEL})[*_]{{0,3}}\s{{0,8}}[:=]{{1,2}}[*_]{{0,3}}[ \t]{{1,8}}(?P<secret>[^\s\"'`{{\[][^\n\"`]{{1,60}}?)(?:[ \t]{{1,8}}[#(].{{0,80}})?[ \t]{{0,8}}\r?\n?$"),
    (FILE, _P, _S, rf"(?i)(?:{_KEY}|{_CAMEL})[*_]{{0,3}}:[ \t]{{1,8}}(?P<secret>[^\s\"'`,;{{}}()\[\]<>|]{{2,64}})[ \t]{{0,2}}(?=[;,}}\])])"),
    (FILE, _P + "|secret|token|phash", _S, r"(?i)<(?:[\w.:-]{0,40})(?:passw(?:or)?d|passphrase|secret|token|psk|pwd|phash)(?:\s[^<>]{0,80})?>(?P<secret>[^<>\n]{2,200})</"),
    (FILE, _P, _S, rf"(?i)<\w+\s(?:name|key)=[\"'][\w.:-]{{0,60}}{PASSWORDS}[\"']\s+value=[\"'](?P<secret>[^\"'\n]{{2,128}})[\"']"),
    (FILE, "secret|token|apikey", _N, r"(?i)<\w+\s(?:name|key)=[\"'][\w.:-]{0,60}(?:secret|token|apikey)[\"']\s+value=[\"'](?P<secret>[^\"'\n]{6,200})[\"']"),
    (FILE, _P, _S, rf"(?i)(?:name|key|parameterkey)[\"']?\s?[:=]\s?[\"']?[\w.-]{{0,60}}{PASSWORDS}[\"']?\s?,\s?[\"']?(?:parameter)?value[\"']?\s?[:=]\s?(?:{{quoted}}|(?P<secret>[^\s\"'`,}}\]]{{2,128}}))"),
    (FILE, "secret|token|key", _N, r"(?i)(?:name|key)[\"']?\s?:\s?[\"']?[\w.-]{0,60}(?:secret|token|api_?key)[\"']?\s?,\s?[\"']?value[\"']?\s?:\s?[\"']?(?P<secret>[^\s\"'`,}\]]{6,200})"),
    (FILE, _P, _S, rf"(?i)value[\"']?\s?:\s?(?:{{quoted}}|(?P<secret>[^\s\"'`,}}\]]{{2,128}}))\s?,\s?[\"']?(?:name|key)[\"']?\s?:\s?[\"']?[\w.-]{{0,60}}{PASSWORDS}[\"'\s,}}]"),
    (FILE, "secret|token|key", _N, r"(?i)value[\"']?\s?:\s?[\"']?(?P<secret>[^\s\"'`,}\]]{6,200})[\"']?\s?,\s?[\"']?(?:name|key)[\"']?\s?:\s?[\"']?[\w.-]{0,60}(?:secret|token|api_?key)[\"'\s,}]"),
    (FILE, "define(", _S, r"(?i)\bdefine\(\s?['\"]\w{0,40}(?:password|_pass|_key|_salt|secret|token)['\"]\s?,\s?['\"](?P<secret>[^'\"\n]{2,200})['\"]"),
    (FILE, "bindpw|bind_pw|rootpw|requirepass|masterauth|authtok", _S, r"(?i)^\s{0,20}(?:bindpw|bind_pw|rootpw|olcrootpw|requirepass|masterauth|ldap_default_authtok)\s{0,8}[ :=]\s{0,8}[\"']?(?P<secret>[^\"'\n]{2,128}?)[\"']?\s{0,8}$"),
    (FILE, "auth-pass|auth_pass|insecure-password|wpa_passphrase", _S, r"(?i)\b(?:auth-pass \S{1,60}\s|auth_pass\s|insecure-password\s|wpa_passphrase\s?=)\s{0,4}(?P<secret>\S{2,128})"),
    (FILE, "stats auth", _S, r"(?i)^\s{0,20}stats\s+auth\s+[^\s:]{1,64}:(?P<secret>\S{2,128})"),
    (FILE, "~*", _S, r"(?i)^\s{0,8}user \S{1,60} [^\n]{0,40}>(?P<secret>\S{2,128})\s"),
    (FILE, "psk|eap \"|xauth \"|ntlm \"", _S, r"(?i)(?::\s?(?:psk|eap|xauth|ntlm)\s{1,8}|\bpsk=)(?:\"(?P<secret>[^\"\n]{2,128})\"|'(?P<single>[^'\n]{2,128})')"),
    (FILE, "cleartext-password|radtest", _S, r"(?i)Cleartext-Password\s{0,4}:?=\s{0,4}\"?(?P<secret>[^\"\n]{2,64}?)\"?\s{0,4}(?:,|$)|\bradtest\s+\S+\s+\S+\s+\S+\s+\d+\s+(?P<shared>\S{3,64})"),
    (FILE, "secret", _N, r"(?i)^\s{1,20}(?:shared_?)?secret\s{1,8}=\s{0,8}\"?(?P<secret>[^\"\s{}]{3,64})\"?\s{0,4}$"),
    (FILE, "secret", _S, r"(?i)^\s{1,20}(?:shared_?)?secret\s{1,8}=\s{1,8}\"?(?P<secret>[A-Za-z]{3,64}|[^\"\n{}.]{3,64}\s[^\"\n{}.]{2,64})\"?\s{0,4}$"),
    (FILE, "machine |default login", _S, r"(?i)\b(?:machine\s+\S{1,100}|default)\s+login\s+(?!anonymous)\S{1,64}\s+password\s+(?P<secret>\S{2,128})"),
    (FILE, ":5432:|:*:|:3306:|:5433:|:6432:", _S, r"^\s{0,8}[\w.*-]{1,100}:(?:\d{4,5}|\*):(?:\*|[A-Za-z_][\w-]{0,62}):(?:\*|[A-Za-z_][\w-]{0,62}):(?P<secret>[^\n]{2,100}?)\s{0,4}$"),
    (FILE, "]:587|]:25|]:465|:587 |:465 |:25 ", _S, r"^\s{0,8}\[?[\w.-]{1,100}\]?:(?:25|465|587)\s+[^\s:]{1,64}:(?P<secret>\S{2,100})"),
    (FILE, "base64:", _F, r"(?i)key\s?[:=]\s?[\"']?base64:(?P<secret>[A-Za-z0-9+/]{40,90}=?)"),
    (FILE, "_auth", _F, r"(?i)\b_auth(?:token)?\s?=\s?\"?(?P<secret>[A-Za-z0-9+/_.-]{12,200}={0,2})"),
    (FILE, "\"auth\"", _B, r"\"auth\"\s?:\s?\"(?P<secret>[A-Za-z0-9+/]{8,400}={0,2})\""),
    (FILE, "client-key-data", _F, r"client-key-data[\"']?\s?:\s?[\"']?(?P<secret>[A-Za-z0-9+/]{32,20000}={0,2})"),
    (FILE, "unseal|recovery", _F, r"(?i)\b(?:unseal|recovery) key \d{1,2}(?: \([^)\n]{1,40}\))?\s?[:=]\s?(?P<secret>[A-Za-z0-9+/]{32,88}={0,2})|vault operator (?:unseal|rekey\b[^\n]{0,40}) (?P<typed>[A-Za-z0-9+/]{32,88}={0,2})"),
    (FILE, "unseal_keys|recovery_keys", _F, r"(?i)\"(?:unseal|recovery)_keys_(?:b64|hex)\"\s?:\s?\[\s?\"(?P<secret>[A-Za-z0-9+/]{32,88}={0,2})(?:\"\s?,\s?\"(?P<second>[A-Za-z0-9+/]{32,88}={0,2}))?(?:\"\s?,\s?\"(?P<third>[A-Za-z0-9+/]{32,88}={0,2}))?(?:\"\s?,\s?\"(?P<fourth>[A-Za-z0-9+/]{32,88}={0,2}))?(?:\"\s?,\s?\"(?P<fifth>[A-Za-z0-9+/]{32,88}={0,2}))?"),
    (FILE, "token|login", _R, r"(?i)(?:token|login)[\"']?[:=\s]{1,4}[\"']?(?P<secret>s\.[A-Za-z0-9]{24})\b"),
    (_KIND_OF_KEY, "privatekey|presharedkey", _F, r"(?i)\b(?:privatekey|presharedkey)\s?[:=]\s?[\"']?(?P<secret>[A-Za-z0-9+/]{43}=)"),
    (_KIND_OF_KEY, "private key", _F, r"(?i)private key\s?(?:is|:|=)?\s?[\"'`]?(?P<secret>[A-Za-z0-9+/]{43}=|[a-f0-9]{64})(?![A-Za-z0-9+/])"),
    (_KIND_OF_KEY, "encrypt =|encrypt\"|encrypt:|keyring -", _F, r"(?i)(?:\bencrypt[\"']?\s?[:=]\s?[\"']?|keyring -(?:install|use|remove)[= ])(?P<secret>[A-Za-z0-9+/]{43}=|[A-Za-z0-9+/]{22}==)"),
    (_KIND_OF_KEY, "secret|key", _F, r"\b(?:key|secret)\s?=\s?(?P<secret>AQ[A-Za-z0-9+/]{36}==)"),
    (_KIND_OF_KEY, "tokens|secretid", _F, r"(?i)(?:\"?(?:agent|master|initial_management|default|replication|bootstrap)(?:_recovery)?\"?\s?[:=]\s?\"|secretid:?\s{0,4}`?)(?P<secret>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"),
    (_KIND_OF_KEY, "api_key|api-key|apikey|routing_key|service_key|integration_key", _F, r"(?i)(?:api[_-]?key|routing_key|service_key|integration_key)[\"']?\s?[:=]\s?[\"']?(?P<secret>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})\b"),
    (_KIND_OF_KEY, "\"d\"|\"p\"|\"q\"|\"qi\"|\"dp\"|\"dq\"", _F, r"\"(?:d|p|q|dp|dq|qi)\"\s?:\s?\"(?P<secret>[A-Za-z0-9_-]{43,1400})\""),
    (_KIND_OF_KEY, "otpauth|totp", _F, r"(?:otpauth://[^\s\"'`<>]{1,120}?[?&]secret=|(?i:\btotp\b)[^\n]{0,60}?[ :=])(?P<secret>[A-Z2-7]{16,64})(?![A-Za-z0-9])"),
    (_KIND_OF_KEY, "recovery|bitlocker|password", _F, r"(?<![\d-])(?P<secret>\d{6}(?:-\d{6}){7})(?![\d-])"),
    (_KIND_OF_KEY, "session=|sessionid=|session_id=|sessid=", _R, r"(?i)(?:cookie:|\s-b\s|--cookie)[^\n]{0,200}?\b\w{0,20}sess(?:ion)?(?:_?id)?=(?P<secret>[^\s;\"'`]{16,512})"),
    (_KIND_OF_KEY, "session_token|sessiontoken|security_token", _F, r"(?i)(?:session|security)_?token[\"']?\s?[:=]\s?[\"']?(?P<secret>[A-Za-z0-9+/]{60,2000}={0,2})"),
    (_KIND_OF_KEY, "codes", _N, r"(?i)\b(?:recovery|backup|rescue|scratch) codes?\b[^\n:]{0,40}:\s?(?P<secret>[a-z0-9]{4,6}(?:-[a-z0-9]{4,6}){1,4})(?:,\s?(?P<second>[a-z0-9]{4,6}(?:-[a-z0-9]{4,6}){1,4}))?"),
    (FILE, _P, _S, rf"(?i)^\s{{0,8}}\|?\s{{0,8}}[*_`]{{0,2}}(?:[\w./-]{{1,20}}\s){{0,3}}{PASSWORDS}[*_`]{{0,2}}\s{{0,40}}\|\s{{0,8}}`?(?P<secret>[^|\n`]{{2,80}}?)`?\s{{0,60}}\|?\s{{0,4}}$"),
    (FILE, _P + "|secret|token", _S, r"(?i)[\"'][\w.]{0,40}(?:password|passwd|_pass|_pwd|secret|token)=(?P<secret>[^\"'\n=&]{2,128})[\"']"),
    (FILE, _P, _S, rf"(?i)\"[\w.-]{{0,60}}{PASSWORDS}\"\s?:\s?\{{\s?\"value\"\s?:\s?\"(?P<secret>[^\"\n]{{2,128}})\""),
    (FILE, _P, _S, rf"(?i)<\w+\s(?:name|key)=[\"'][\w.:-]{{0,60}}{PASSWORDS}[\"']\s?>(?P<secret>[^<>\n]{{2,200}})</"),
    (FILE, "secret", _S, r"(?i)\b(?:jwt|client|session|cookie|app|signing|hmac|webhook)_?secret(?:_?key)?[\"']?\s?[:=]\s?[\"']?(?P<secret>[^\s\"'`,;{}\[\]()<>]{6,200})(?=[\"'\s,;}]|$)"),
    (FILE, _P, _S, rf"^\s{{0,20}}(?:[a-z][\w.-]{{0,60}}[._-])?(?:[a-z]\w{{0,40}}(?:Password|Passphrase)|{PASSWORDS})=(?P<secret>[^\s\"'`][^\n\"'`=]{{1,60}}?)[ \t]{{0,8}}$"),
    (FILE, _P, _S, r"(?i)<\w{0,30}password>\s{0,8}<value>(?P<secret>[^<>\n]{2,200})</"),
    (FILE, "\" \"", _S, r"^\s{0,4}\"[\w.@-]{1,63}\" \"(?P<secret>[^\s\"{}\[\]/:.]{4,128})\"\s{0,4}$"),
    (FILE, "erlang_cookie", _F, r"(?i)erlang_cookie[\"']?\s?[:=]\s?[\"']?(?P<secret>\w{8,255})"),
    (FILE, "rediscli_auth", _S, r"\bREDISCLI_AUTH=[\"']?(?P<secret>[^\s\"'`]{2,128})"),
    (FILE, _P, _S, rf"(?i)(?:{_KEY}|{_CAMEL})\s{{0,8}}(?:=>|:=|=)[ \t]{{0,8}}(?P<secret>[^\s\"'`;,<>()&|\[\]]{{2,128}})(?=[\s,;&|`)\]]|$)"),
    (_KIND_OF_KEY, "secret_key_base", _F, r"(?i)secret_key_base[\"']?\s?[:=]\s?[\"']?(?P<secret>[0-9a-f]{32,256})"),
    (_KIND_OF_KEY, "secret_id", _F, r"(?i)secret_id[\"']?\s?[:=]\s?[\"']?(?P<secret>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"),
    (_KIND_OF_KEY, "password_hash|passwordhash|pwhash", _R, r"(?i)\b(?:password_?hash|pwhash)[\"']?\s?[:=]\s?[\"']?(?P<secret>[A-Za-z0-9+/]{32,200}={0,2})"),
    (_KIND_OF_KEY, "key", _F, r"(?i)(?:\b(?:gossip|encryption|master|shared)\skey\s?[:=]\s?|^\s{0,8}key\s\d{1,2}:\s{1,4})[\"'`]?(?P<secret>[A-Za-z0-9+/]{43}=|[0-9a-f]{66})(?![A-Za-z0-9+/])"),
    # -- commands
    (COMMAND, "mysql|mariadb", _S, r"\b(?:mysql|mariadb)\w{0,12}(?:\s[^\n|;&]{0,160}?)??\s-p(?:{argument})"),
    (COMMAND, "sshpass|7z", _S, r"\b(?:sshpass|7za?)\s(?:[^\n|;&]{0,60}?\s)??-p\s?(?:{argument})"),
    (COMMAND, "zip ", _S, r"\b(?:un)?zip\s(?:[^\n|;&]{0,60}?\s)??-P\s?(?:{argument})"),
    (COMMAND, " login ", _S, r"\b(?:docker|podman|helm registry|buildah|skopeo|oras|crane|nerdctl|az acr)\s+login\s[^\n|;&]{0,160}?(?<=\s)-p[ =]?(?:{argument})"),
    (COMMAND, "az ", _S, r"\baz\s+[\w -]{2,60}\s[^\n|;&]{0,200}?(?<=\s)(?:-p|--(?:admin-)?password)[ =](?:{argument})"),
    (COMMAND, "curl", _S, r"\bcurl\b[^\n|;]{0,200}?\s(?:-u|--user|-U|--proxy-user)[ =]?(?:'[^\s:']{1,64}:(?P<inner>[^'\n]{2,128})'|\"[^\s:\"]{1,64}:(?P<other>[^\"\n]{2,128})\"|[^\s:\"']{1,64}:(?P<secret>[^\s\"'`]{2,128}))"),
    (COMMAND, "--user|etcdctl", _S, r"\betcdctl\b[^\n|;]{0,100}?\s--user[ =][\"']?[^\s:\"']{1,64}:(?P<secret>[^\s\"'`]{2,128})"),
    (COMMAND, _P, _S, rf"(?i)(?<![A-Za-z0-9])(?:--?|/)[a-z-]{{0,30}}{PASSWORDS}(?:[ =:])(?:{{argument}})"),
    (COMMAND, "token:|key:|secret:", _S, r"(?i)(?:-H|--header)[ =][\"']?(?:X-)?[\w-]{0,40}(?:token|key|secret)\s?:\s?(?P<secret>[^\s\"'`]{12,512})"),
    (COMMAND, "redis-cli", _S, r"\bredis-cli\b[^\n|;]{0,120}?(?<=\s)-a\s?(?:{argument})"),
    (COMMAND, "auth ", _S, r"(?:^|[\"'>])\s{0,4}AUTH\s+(?:\w{1,40}\s+)?(?P<secret>[^\s\"'`]{3,128})(?=[\"'\s]|$)"),
    (COMMAND, "net use", _S, r"(?i)\bnet\s+use\s+(?:\w:|\*)?\s{0,4}\\\\[^\s\"']{1,120}\s+(?:/user:\S{1,80}\s+)?(?:\"(?P<quoted>[^\"\n]{2,128})\"|(?P<secret>(?![/*])[^\s\"`]{2,128}(?:\s(?![/*])[^\s\"`/]{1,30})?))"),
    (COMMAND, "net user", _S, r"(?i)\bnet\s+user\s+[^\s/]{1,64}\s+(?P<secret>(?![/*])[^\s\"`]{3,128})"),
    (COMMAND, "smbclient|rpcclient|winexe|smbget|smbmap|net rpc|net ads", _S, r"(?:smbclient|rpcclient|winexe|smbget|net (?:rpc|ads)|wmic|smbmap|-U)\b[^\n|;]{0,120}?\s?[\"']?[\w.\\/@-]{1,64}%(?P<secret>[^\s'\"`%]{2,128})[\"'\s`]"),
    (COMMAND, "ldapsearch|ldapmodify|ldapadd|ldapdelete|ldappasswd|ldapwhoami|ldapcompare|ldapmodrdn", _S, r"\bldap(?:search|modify|add|delete|passwd|whoami|compare|modrdn)\b[^\n|;]{0,200}?(?<=\s)-w\s?(?:{argument})"),
    (COMMAND, "pass:", _S, r"-pass(?:in|out)?\s+pass:(?P<secret>[^\s\"'`]{2,128})"),
    (COMMAND, "storepass|keypass", _S, r"-(?:src|dest|new)?(?:storepass|keypass)\s+(?:{argument})"),
    (COMMAND, "mongo", _S, r"\bmongo\w{0,10}\b[^\n|;]{0,200}?(?<=\s)-p[ =]?(?:{argument})"),
    (COMMAND, "sqlcmd|bcp|osql", _S, r"\b(?:sqlcmd|bcp|osql)\b[^\n|;]{0,200}?(?<=\s)-P\s?(?:{argument})"),
    (COMMAND, "sqlplus|expdp|impdp|sqlldr|rman target", _S, r"\b(?:sqlplus|expdp|impdp|sqlldr|rman target)\s+(?:-\w\s+)?[\"']?[\w$]{1,40}/(?P<secret>[^\s@/\"'`]{2,128})"),
    (COMMAND, "--from-literal", _S, rf"(?i)--from-literal[ =][\"']?[\w.-]{{0,60}}(?:{PASSWORDS}|secret|token|key)=(?P<secret>[^\s\"'`]{{2,256}})"),
    (COMMAND, "chpasswd", _S, r"(?:echo|printf|<<<)\s+(?:-\w\s+)?[\"']?[\w.-]{1,40}:(?P<secret>[^\s\"'\\|]{2,128})(?:\\n)?[\"']?\s?\|?\s?(?:sudo\s)?chpasswd"),
    (COMMAND, "--stdin|sudo -s|cryptsetup", _S, r"(?:echo|printf)\s+(?:-\w\s+)?[\"'](?P<secret>[^\"'\n\\]{2,128})(?:\\n)?[\"']\s?\|\s?(?:sudo\s+-S|passwd\s+--stdin|(?:sudo\s+)?passwd\b[^\n]{0,20}--stdin|cryptsetup)"),
    (COMMAND, "identified by|identified with", _S, r"(?i)\b(?:user|grant|alter|role|create)\b[^\n]{0,200}?\bidentified\s+(?:with\s+\S{1,40}\s+)?by\s+(?:password\s+)?(?:'(?P<quoted>[^'\n]{2,128})'|\"(?P<other>[^\"\n]{2,128})\"|(?P<secret>[A-Za-z]\w{3,40})(?=\s?[;,]|\s|$))"),
    (COMMAND, "password", _S, r"(?i)\bpassword\s{0,4}(?:=\s?)?(?:N|\()?\s?'(?P<secret>[^'\n]{2,200})'"),
    (COMMAND, "ipmitool|racadm|ipmi-", _S, r"\b(?:ipmitool|racadm|ipmi-\w+)\b[^\n|;]{0,160}?(?<=\s)-[Pp]\s+(?:{argument})"),
    (COMMAND, "rabbitmqctl", _S, r"\brabbitmqctl\s+(?:-\S+\s+\S+\s+)?(?:add_user|change_password)\s+[^\s\"']{1,60}\s+(?:{argument})"),
    (COMMAND, "htpasswd", _S, r"\bhtpasswd\s+-\w*b\w*\s+(?:-\S+\s+)?(?!-)\S{1,120}\s+(?:(?!\d)\S{1,60})\s+(?:{argument})"),
    (COMMAND, "mc alias|mc config", _S, r"\bmc\s+(?:alias set|config host add)\s+\S+\s+\S+\s+\S+\s+(?:{argument})"),
    (COMMAND, "configure set", _F, r"\bconfigure\s+set\s+(?:\S+\.)?(?:aws_)?(?:secret_access_key|session_token)\s+(?P<secret>\S{16,2000})"),
    (COMMAND, "snmp", _S, r"\b(?:snmp(?:walk|get|getnext|bulkwalk|bulkget|set|table|trap)|check_snmp\w*)\b[^\n|;]{0,120}?(?<=\s)-[cC]\s?(?:{argument})"),
    (COMMAND, "snmp", _S, r"\bsnmp\w+\b[^\n|;]{0,120}?(?<=\s)-A\s+(?:{argument})(?:[^\n|;]{0,60}?(?<=\s)-X\s+(?P<privacy>\"[^\"\n]{2,64}\"|'[^'\n]{2,64}'|[^\s\"'`]{2,64}))?"),
    (COMMAND, "securestring", _S, r"(?i)ConvertTo-SecureString\s+(?:-String\s+)?[\"'](?P<secret>[^\"'\n]{2,128})[\"']"),
    (COMMAND, "psexec|plink|pscp|putty", _S, r"(?i)\b(?:psexec(?:64)?|plink|pscp|psftp|putty)\b[^\n|;]{0,160}?(?<=\s)-(?:p|pw)\s+(?:{argument})"),
    (COMMAND, "/rp|/p:", _S, r"(?i)(?<=\s)/(?:rp\s+|rp:|p:)(?:{argument})"),
    (COMMAND, "lftp", _S, r"\blftp\b[^\n|;]{0,60}?-u\s+[^\s,]{1,64},[\"']?(?P<secret>[^\s\"'`]{2,128})"),
    (COMMAND, "ncftp|cqlsh|influx|nodetool", _S, r"\b(?:ncftp\w*|cqlsh|nodetool|influx)\b[^\n|;]{0,160}?(?<=\s)-(?:p|pw|password)\s+(?:{argument})"),
    (COMMAND, "put-parameter", _S, r"\bput-parameter\b[^\n]{0,200}?(?i:password|secret|token|securestring)[^\n]{0,200}?--value[ =](?:{argument})"),
    (COMMAND, "a2=\"-p", _S, r"\"mysql\w{0,8}\"[^\n]{0,120}?=\"-p(?P<secret>[^\"\n]{2,128})\""),
    (COMMAND, "--password-stdin", _S, r"\b(?:echo|printf)\s+(?:-\w+\s+)?(?:{argument})\s?\|[^\n|]{0,120}--password-stdin"),
    (COMMAND, "--creds", _S, r"--(?:src-|dest-)?creds[ =][^\s:]{1,64}:(?P<secret>[^\s\"'`]{2,128})"),
    (COMMAND, "http", _S, r"\b(?:https?|xh)\s(?:[^\n|;]{0,60}?\s)??(?:-a|--auth)[ =][^\s:\"']{1,64}:(?P<secret>[^\s\"'`]{2,128})"),
    (COMMAND, "openssl", _S, r"\bopenssl\s+enc\b[^\n|;]{0,100}?\s-k\s+(?:{argument})"),
    (COMMAND, "--secret-string", _S, r"--secret-string[ =](?!file)(?:'(?P<single>[^'\n{]{2,200})'|\"(?P<double>[^\"\n{]{2,200})\"|(?P<secret>[^\s\"'`{]{2,200}))"),
    (COMMAND, "passwd", _S, r"\b(?:echo|printf)\s+(?:-\w+\s+)?[\"'](?P<secret>[^\"'\n\\]{2,64})\\n(?P<again>[^\"'\n\\]{2,64})(?:\\n)?[\"']\s?\|\s?(?:sudo\s+)?(?:smb)?passwd"),
    (COMMAND, "sp_addlogin|sp_password", _S, r"(?i)\bsp_(?:addlogin|password)\b[^\n']{0,20}'[^'\n]{1,60}'\s?,\s?N?'(?P<secret>[^'\n]{2,128})'"),
    (COMMAND, "ilorest|rabbitmqadmin|beeline|cypher-shell|couchbase-cli|esxcli|mosquitto_|isql|tsql|aql |impala-shell", _S, r"\b(?:ilorest|rabbitmqadmin|beeline|cypher-shell|couchbase-cli|esxcli|mosquitto_\w+|isql|tsql|aql|impala-shell)\b[^\n|;]{0,160}?(?<=\s)-[pP]\s?(?:{argument})"),
    (COMMAND, "securestring", _S, r"(?i)[\"'](?P<secret>[^\"'\n]{2,128})[\"']\s?\|\s?ConvertTo-SecureString"),
    (COMMAND, "rar ", _S, r"\brar\s(?:[^\n|;&]{0,60}?\s)??-h?p(?:{argument})"),
    # -- devices
    (DEVICE, "enable secret|enable password", _S, r"(?i)(?:^|\#\s?)\s{0,8}enable\s+(?:secret|password)\s+(?:level\s+\d+\s+)?(?:(?:\d|sha512)\s+)?(?P<secret>\S{2,128})"),
    (DEVICE, "username ", _S, r"(?i)(?:^|\#\s?)\s{0,8}username\s+[^\s|]{1,60}\s(?:[^\n|]{0,60}?\s)??(?:secret|password)\s+(?:(?:\d|sha512)\s+)?(?P<secret>[^\s\"][^\n\"]{1,60}?)(?:\s+(?:privilege|role|encrypted)\b[^\n]{0,40})?\s{0,4}$"),
    (DEVICE, "password", _S, r"(?i)^\s{1,8}password\s+(?:(?:\d|encrypted)\s+)?\"?(?P<secret>(?!\d\s)[^\s\"']{2,128})\"?\s{0,4}$"),
    (DEVICE, "neighbor ", _S, r"(?i)^\s{0,8}neighbor\s+\S{1,60}\s+password\s+(?:\d\s+)?(?P<secret>\S{2,128})"),
    (DEVICE, "key", _S, r"(?i)\b(?:tacacs|radius)\S{0,12}\s[^\n]{0,80}?\bkey\s+(?:\d\s+)?(?P<secret>[^\s\"]{2,128})\s{0,4}$"),
    (DEVICE, "server-private", _S, r"(?i)^\s{0,8}server-private\s+\S{1,60}\s[^\n]{0,60}?\bkey\s+(?:\d\s+)?(?P<secret>\S{2,128})"),
    (DEVICE, "key", _S, r"(?i)\b(?:isakmp|ikev[12]|isakmp policy)\s+key\s+(?:\d\s+)?(?P<secret>\S{2,128})\s+(?:address|hostname)\b"),
    (DEVICE, "pre-shared-key", _S, r"(?i)\bpre-shared-key\s+(?:(?:local|remote|ascii-text|hexadecimal|\d)\s+)?[\"`]?(?P<secret>(?!(?:is|for|and|of|in|on|with|authentication)\b)[^\s\"`;]{3,128}(?:\s[^\s\"`;]{2,30})?)[\"`;]?\s{0,4}(?:$|;|`)"),
    (DEVICE, "pre-shared-key", _S, r"(?i)pre-shared-key=\"?(?P<secret>[^\s\"]{3,128})"),
    (DEVICE, " md5 ", _S, r"(?i)\b(?:message-digest-key\s+\d+|authentication-key\s+\d+)\s+md5\s+(?:\d\s+)?(?P<secret>\S{2,128})"),
    (DEVICE, "authentication-key|key-string", _S, r"(?i)\b(?:ospf authentication-key|key-string)\s+(?:\d\s+)?(?P<secret>[^\s\"]{2,128})\s{0,4}$"),
    (DEVICE, "authentication-key", _F, r"(?i)authentication-key\s+\"(?P<secret>[^\"\n]{4,128})\""),
    (DEVICE, "plain-text-password|plaintext-password", _S, r"(?i)\bplain-?text-password(?:-value)?\s+[\"']?(?P<secret>[^\s\"'`]{2,128})"),
    (DEVICE, "set pass|set psksecret|set ppk-secret", _S, r"(?i)^\s{0,20}set\s+(?:passw(?:or)?d|psksecret|ppk-secret|secret|auth-pwd|priv-pwd)\s+(?:ENC\s+)?\"?(?P<secret>[^\s\"]{2,400})\"?\s{0,4}$"),
    (DEVICE, "wpa-passphrase", _S, r"(?i)\bwpa-passphrase\s+(?P<secret>\S{2,128})"),
    (DEVICE, "mgmt-user", _F, r"(?i)\bmgmt-user\s+\S{1,40}\s+\S{1,40}\s+(?P<secret>[0-9a-f]{40,64})"),
    (DEVICE, "-aq==", _F, r"(?P<secret>-AQ==[A-Za-z0-9+/]{20,40}=[A-Za-z0-9+/]{16,400}={0,2})"),
    (DEVICE, "snmp-server user", _S, r"(?i)\bsnmp-server\s+user\s[^\n]{0,80}?\bauth\s+(?:md5|sha\S{0,4})(?:\s\d{3})?\s+(?P<secret>\S{2,128})(?:\s+priv\s+(?:aes|des|3des)\S{0,4}(?:\s\d{3})?\s+(?P<privacy>\S{2,128}))?"),
    (DEVICE, "standby|vrrp", _S, r"(?i)^\s{0,8}(?:standby|vrrp)\s+\d+\s+authentication\s+(?:text\s+)?(?!md5|text|key)(?P<secret>\S{2,64})"),
    (DEVICE, " add ", _S, r"(?i)^\s{0,8}/[a-z][\w -]{2,40}\sadd\s[^\n]{0,160}?\bsecret=\"?(?P<secret>[^\s\"]{2,128})"),
    (COMMUNITY, "community", _S, r"(?i)\bsnmp-server\s+community\s+(?:\d\s+)?(?P<secret>\S{2,64})|\bset\s+snmp\s+community\s+(?P<set>\S{2,64})"),
    (COMMUNITY, "snmp-server", _S, r"(?i)\bsnmp-server\s+host\s+\S{1,60}\s+(?:(?:traps?|informs?)\s+)?version\s+(?:1|2c)\s+(?P<secret>\S{2,64})"),
    (COMMUNITY, "community|com2sec", _S, r"(?i)^\s{0,8}(?:r[ow]community6?\s+|com2sec6?\s+\S{1,40}\s+\S{1,60}\s+)(?P<secret>[^\s\"]{2,64})"),
    (COMMUNITY, "community", _S, r"(?i)(?:snmp[\w-]{0,20}[_ -])?community(?:[ _-](?:string|name))?[\"']?(?:\s?[:=]\s?[\"'`]?|\s(?:is\s)?[`\"'])(?P<secret>[^\s\"'`,;}]{2,64})(?=[\"'`,;}]|\s{0,4}$)"),
    (COMMUNITY, "createuser", _S, r"(?i)^\s{0,8}createUser\s+\S{1,40}\s+(?:MD5|SHA\S{0,4})\s+(?:\"(?P<quoted>[^\"\n]{2,64})\"|(?P<secret>[^\s\"]{2,64}))(?:\s+(?:AES|DES)\S{0,4}\s+(?P<privacy>[^\s\"]{2,64}))?"),
    # -- prose
    (PROSE, _P, _S, rf"(?i)\b{_IN_PROSE}{_OF}\s(?:is|was|are|lautet|ist|est|es|è|=|(?:was |is |has been )?(?:now |re)?(?:set |changed |reset )?(?:to|auf))\s(?:now\s)?(?:`(?P<tick>[^`\n]{{3,64}})`|\"(?P<quoted>[^\"\n]{{3,64}})\"|'(?P<single>[^'\n]{{3,64}})'|[„“«]\s?(?P<low>[^“”»\n]{{3,64}}?)\s?[“”»])"),
    (PROSE, _P, _C, rf"(?i)\b{_IN_PROSE}{_OF}\s(?:is|was|are|lautet|ist|(?:was |is |has been |wurde |wird )?(?:now |re)?(?:set |changed |reset )?(?:to|auf))\s(?:now\s)?(?P<secret>[^\s\"'`„“(\[<]{{4,64}}?)(?=[.;,!]?(?:\s|$))"),
    (PROSE, _P, _S, rf"(?i)\b(?:user|username|login|account)\s`?[\w.@-]{{2,40}}`?(?:\s(?:and|with|und|mit)|,)\s(?:the\s|dem\s)?{_IN_PROSE}:?\s(?:\"(?P<quoted>[^\"\n]{{2,64}})\"|(?P<secret>[^\s\"'`(\[<.,;:]{{4,64}}))(?=[.,;)]|\s?$)"),
    (PROSE, "contrase|mot de passe|senha|kennwort|passwort", _S, r"(?i)\b(?:(?:contraseña|mot de passe|senha|kennwort|passwort)\s?(?:est|es|é|lautet|:)|kennwort|passwort)\s(?P<secret>[^\s\"'`„“(\[<.,;:]{4,64})(?=\s?[.;,]|\s?$)"),
    (PROSE, _P, _S, rf"(?i)\b{_IN_PROSE}[\"'*_:]{{0,3}}\s[`](?P<secret>[^`\n\s]{{3,64}})[`]"),
    (PROSE, _P, _C, rf"(?i)(?:login|user|account|admin|username)\b[^\n]{{0,80}}[,;]\s?(?:the\s)?{_IN_PROSE}:?\s(?P<secret>[^\s\"'`(\[<.,;]{{4,64}})(?=[,;.]|\s?$)"),
    (PROSE, "log in|login|credentials|zugang|anmeld", _C, r"(?i)(?:\blog ?in (?:with|as|using)|\blogin:|\bcredentials(?: are)?:?|\bzugang:?|\banmelden mit)\s`?(?:admin|root|user|administrator|guest|test|demo|operator|support|service|[a-z][\w.-]{1,20})`?\s?/\s?`?(?P<secret>[^\s`/.,;]{4,64})"),
    (PROSE, "log in|login|credentials|zugang|anmeld", _S, r"(?i)(?:\blog ?in (?:with|as|using)|\bcredentials(?: are)?:)\s`?(?:admin|root|administrator|guest|demo|operator|support)`?\s?/\s?`?(?P<secret>[^\s`/.,;]{4,64})"),
    (PROSE, "pin:|pin is|pin =|pin lautet|door code|gate code|access code|alarm code|türcode", _S, r"(?i)\b(?:pin|door code|türcode|access code|gate code|alarm code)\s?(?:is|:|=|lautet)\s?`?(?P<secret>\d{4,8})\b(?![-.:/])"),
)  # fmt: skip


BEHIND: dict[str, tuple[str, ...]] = {
    " -p": (
        "mysql", "mariadb", "zip ", "7z", "mongo", "sqlcmd", "bcp", "osql", "ipmitool", "racadm", "ipmi-", "psexec", "plink",
        "pscp", "putty", "ncftp", "cqlsh", "influx", "nodetool",
    ),
    '"d': ('"p"', '"q"', '"dp"', '"dq"', '"qi"'),
}  # fmt: skip
"""Hints of patterns that match only text with the literal before them, so that they are searched only with it."""


def _filled(pattern: str) -> str:
    return pattern.replace("{argument}", f"(?:{_ARGUMENT})").replace("{quoted}", f"(?:{_QUOTED})")


@cache
def stated_formats() -> tuple[SecretFormat, ...]:
    """The formats of files, commands, devices and sentences, in the order in which they are tried: those whose form is
    enough come first."""
    return tuple(
        SecretFormat(*kind, tuple(hints.split("|")), re.compile(_filled(pattern)), judgement, chosen=judgement is not _F)
        for kind, hints, judgement, pattern in sorted((*_QUERIES, *_ROWS), key=lambda row: row[2] is not _F)
    )


@cache
def first_stated() -> int:
    """Number of the formats that are tried before those of names in general."""
    return len(_QUERIES) + sum(row[2] is _F for row in _ROWS)
