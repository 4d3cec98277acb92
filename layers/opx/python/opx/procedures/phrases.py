"""Phrases of runbooks: roles of headings, instructions, expectations, conditions and warnings, by English word lists.

Other languages and free style are matched as far as headings and list forms say what is meant; what isn't recognised keeps its
text and has no type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from opx.domain.procedures import SectionKind

_ROLES = (
    (
        SectionKind.PRECONDITIONS,
        r"pre-?requisites?|pre-?conditions?|before you (?:start|begin)|requirements|access needed|you (?:will )?need",
    ),
    (SectionKind.ROLLBACK, r"roll(?:ing)?[ -]?back|undo|revert(?:ing)?|back ?out|fall ?back"),
    (SectionKind.ESCALATION, r"escalat\w*|contacts?|who to (?:call|ask|page)|on-?call|support|getting help|help"),
    (
        SectionKind.VERIFICATION,
        r"verif\w*|validat\w*|confirm(?:ation)?|check (?:that )?it (?:worked|works)|after(?:wards)?|post-?checks?|exit criteria|done when",
    ),
    (
        SectionKind.REFERENCES,
        r"references?|related(?: .*)?|links|see also|(?:further|additional) (?:reading|resources|information)|resources|documentation|other pages|more (?:information|reading)",
    ),
    (
        SectionKind.BACKGROUND,
        r"meaning|background|overview|introduction|intro|context|how (?:it|this) works|description|about|summary|abstract|architecture|"
        r"default definition|history|why|timeline|contributing factors|root causes?|causes?|possible causes?|lessons? learn(?:ed|t)|what went (?:well|wrong)|"
        r"where we got lucky|attendees|stats|action items|glossary|nomenclature|scope|when it (?:just )?works|limits|trigger(?:s|ing)?|what (?:is|does) .*|prevention|preventing .*|process improvements|technical improvements",
    ),
    (
        SectionKind.SYMPTOMS,
        r"symptoms?|signs?|alerts?|detection|alarms?|how (?:you|to) (?:notice|recognise|recognize|tell).*|what you see|indications?",
    ),
    (SectionKind.IMPACT, r"impact|severity|customer impact|user impact|effects?|consequences?|blast radius"),
    (
        SectionKind.DIAGNOSIS,
        r"diagnos\w*|investigat\w*|troubleshoot\w*|triage|debug\w*|analy[sz]\w*|how (?:to|do i) (?:investigate|debug|diagnose).*|finding .*|identify\w*|checks?|(?:cli )?checks|first (?:look|checks|response)",
    ),
    (
        SectionKind.STEPS,
        r"mitigat\w*|resol(?:ution|ve|ving)\w*|solutions?|fix(?:es|ing)?|remed\w*|repair\w*|recover\w*|restor\w*|procedures?|steps?|actions?|what to do|how to .*|instructions|"
        r"recommended actions?|process|workarounds?|response|short-?term .*|long-?term .*|playbook|runbook|immediate .*",
    ),
)
_HEADINGS = [(kind, re.compile(rf"(?:{words})\b", re.IGNORECASE)) for kind, words in _ROLES]
_WHOLE = [(kind, re.compile(rf"(?:{words})\Z", re.IGNORECASE)) for kind, words in _ROLES]
_NUMBER = re.compile(
    r"\s*(?:(?:step|phase|part)\s*)?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z])\s*[.):–—-]\s*|\s*(?:step|phase|part)\s+\d{1,3}\s*[.):–—-]?\s*",
    re.IGNORECASE,
)
_MARKS = re.compile(
    r"[*`]+|(?<![A-Za-z0-9])_{1,3}|_{1,3}(?![A-Za-z0-9])|^#+\s|!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|</?(?:a|b|i|br|p|em|img|div|span|code|strong|details|summary|kbd|sub|sup)\b[^<>]{0,200}>"
)


def plain(text: str) -> str:
    """A line without Markdown's marks and links, white space joined."""
    return " ".join(_MARKS.sub(lambda found: found[1] or "", text).split())


def unnumbered(heading: str) -> str:
    """A heading without "Step 3:" or "2.1 " before it."""
    match = _NUMBER.match(heading)
    return heading[match.end() :] if match and match.end() < len(heading) else heading


def is_numbered(heading: str) -> bool:
    """Whether a heading begins with a number or the number of a step."""
    match = _NUMBER.match(heading)
    return bool(match and re.search(r"\d", match[0]))


def role_of(heading: str) -> SectionKind:
    """The role that a heading names, OTHER for none. One that is nothing but the name of a role comes before one that begins
    with it."""
    text = unnumbered(plain(heading)).strip(" :?!.")
    for table in (_WHOLE, _HEADINGS):
        for kind, pattern in table:
            if pattern.match(text):
                return kind
    return SectionKind.OTHER


def is_role(heading: str) -> bool:
    """Whether a heading is nothing but the name of a role, such as `Diagnosis`, `Resolution steps` or `Symptoms and impact`."""
    parts = re.split(r"\s+(?:and|or|/|&)\s+|\s*[/&,]\s*", unnumbered(plain(heading)).strip(" :?!."))
    return all(
        any(pattern.match(part) for _, pattern in _WHOLE)
        or (role_of(part) is not SectionKind.OTHER and not begins_with_verb(part))
        for part in parts
    )


_VERBS = frozenset(
    [
        "access",
        "acknowledge",
        "activate",
        "add",
        "adjust",
        "advise",
        "allow",
        "alter",
        "analyse",
        "analyze",
        "announce",
        "apply",
        "ask",
        "assign",
        "attach",
        "back",
        "backup",
        "be",
        "begin",
        "block",
        "boot",
        "bounce",
        "bring",
        "build",
        "calculate",
        "call",
        "cancel",
        "capture",
        "change",
        "check",
        "choose",
        "clean",
        "clear",
        "click",
        "clone",
        "close",
        "collect",
        "compare",
        "complete",
        "configure",
        "confirm",
        "connect",
        "consider",
        "consult",
        "contact",
        "continue",
        "convert",
        "copy",
        "cordon",
        "create",
        "cut",
        "deactivate",
        "decide",
        "declare",
        "decrease",
        "define",
        "delete",
        "deploy",
        "describe",
        "destroy",
        "detach",
        "determine",
        "diagnose",
        "disable",
        "discard",
        "disconnect",
        "do",
        "document",
        "double-check",
        "download",
        "drain",
        "drop",
        "edit",
        "eject",
        "eliminate",
        "enable",
        "ensure",
        "enter",
        "escalate",
        "establish",
        "estimate",
        "evaluate",
        "evict",
        "examine",
        "execute",
        "exec",
        "exit",
        "expand",
        "export",
        "extend",
        "extract",
        "fail",
        "fetch",
        "figure",
        "file",
        "fill",
        "filter",
        "find",
        "fix",
        "flush",
        "follow",
        "force",
        "free",
        "gather",
        "generate",
        "get",
        "give",
        "go",
        "grab",
        "grant",
        "grep",
        "handle",
        "hover",
        "identify",
        "ignore",
        "immediately",
        "import",
        "improve",
        "include",
        "increase",
        "inform",
        "initiate",
        "insert",
        "inspect",
        "install",
        "investigate",
        "invoke",
        "isolate",
        "issue",
        "join",
        "keep",
        "kick",
        "kill",
        "launch",
        "leave",
        "let",
        "limit",
        "list",
        "load",
        "locate",
        "lock",
        "log",
        "login",
        "look",
        "lower",
        "make",
        "manually",
        "mark",
        "merge",
        "migrate",
        "mitigate",
        "modify",
        "monitor",
        "mount",
        "move",
        "navigate",
        "notify",
        "note",
        "observe",
        "open",
        "operate",
        "optimise",
        "optimize",
        "order",
        "page",
        "patch",
        "pause",
        "perform",
        "pick",
        "ping",
        "place",
        "plan",
        "please",
        "point",
        "power",
        "prepare",
        "press",
        "prevent",
        "print",
        "promote",
        "provide",
        "provision",
        "prune",
        "pull",
        "purge",
        "push",
        "put",
        "query",
        "raise",
        "read",
        "reach",
        "rebalance",
        "reboot",
        "rebuild",
        "recover",
        "recreate",
        "redeploy",
        "redirect",
        "redo",
        "reduce",
        "refer",
        "refresh",
        "regenerate",
        "register",
        "reinstall",
        "reissue",
        "reload",
        "remove",
        "rename",
        "renew",
        "reopen",
        "repair",
        "repeat",
        "replace",
        "replay",
        "report",
        "request",
        "rerun",
        "re-run",
        "resend",
        "reset",
        "resize",
        "resolve",
        "restart",
        "restore",
        "resume",
        "resync",
        "retry",
        "return",
        "revert",
        "review",
        "revoke",
        "roll",
        "rollback",
        "rotate",
        "run",
        "save",
        "scale",
        "scan",
        "schedule",
        "search",
        "see",
        "select",
        "send",
        "set",
        "setup",
        "shard",
        "shrink",
        "shut",
        "sign",
        "silence",
        "skip",
        "snapshot",
        "sort",
        "spin",
        "split",
        "ssh",
        "stabilise",
        "stabilize",
        "start",
        "stop",
        "store",
        "study",
        "submit",
        "suspend",
        "switch",
        "sync",
        "take",
        "tail",
        "talk",
        "tell",
        "terminate",
        "test",
        "throttle",
        "toggle",
        "trace",
        "track",
        "transfer",
        "trigger",
        "try",
        "tune",
        "turn",
        "type",
        "unblock",
        "uncordon",
        "undo",
        "uninstall",
        "unlock",
        "unmount",
        "unseal",
        "update",
        "upgrade",
        "upload",
        "upscale",
        "use",
        "validate",
        "verify",
        "view",
        "visit",
        "wait",
        "watch",
        "wipe",
        "work",
        "write",
        "zoom",
    ]
)
_OPENERS = frozenset(
    [
        "to",
        "start",
        "step",
        "example",
        "first",
        "firstly",
        "second",
        "secondly",
        "then",
        "next",
        "finally",
        "lastly",
        "afterwards",
        "also",
        "now",
        "otherwise",
        "once",
        "optionally",
        "carefully",
        "manually",
        "immediately",
        "please",
        "always",
        "simply",
        "just",
        "alternatively",
        "temporarily",
    ]
)
_MODAL = re.compile(
    r"\b(?:you (?:can|should|must|may|might|could|need to|will (?:need|have|want) to|have to|want to)|we (?:can|should|need to|must)|(?:users?|admins?|operators?|one) (?:will )?(?:needs?|ha(?:s|ve)|must|should)\b|(?:can|should|must|needs? to|has to|have to) (?:then )?be \w+(?:ed|en|t|n)\b|"
    r"to (?:\w+ ){1,12}?(?:run|use|execute|do)\b|it(?:'s| is) (?:best|advisable|recommended|safe|possible|necessary)|recommended to|make sure|try (?:to|\w+ing)|worth \w+ing|(?:contact|ask|page|call) (?:the|your)|"
    r"(?:run|execute|use|running|using|with|by) (?:the )?(?:following|below|this|these)|following (?:command|commands|steps?|query|queries)|follow (?:the|these)|(?:can|could) help)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"(?:if|when|once|in case|should|after|before|for|on|in|from|to|as|while|unless|using|with|via|under|at|depending)\b",
    re.IGNORECASE,
)
_HEADED_CONDITION = re.compile(r"(?:if|when|in case|where)\b|.*(?:→|->|=>)", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][\w'-]*")
_OPTIONAL = re.compile(r"^\W*(?:\(?optional\)?|note|tip|important|warning|caution)\b\W*", re.IGNORECASE)


def is_instruction(text: str) -> bool:
    """Whether a sentence tells to do something: it begins with an imperative, perhaps after a condition, or says what one can or must do."""
    words = plain(_OPTIONAL.sub("", text[:600]))
    if begins_with_verb(words):
        return True
    if _CONDITION.match(words) and any(begins_with_verb(part) for part in re.split(r"[,:;] ?", words)[1:6]):
        return True
    return bool(_MODAL.search(words))


def is_condition(heading: str) -> bool:
    """Whether a heading names the case that its section is for."""
    return bool(_HEADED_CONDITION.match(heading))


def begins_with_verb(text: str) -> bool:
    for word in _WORD.findall(text[:120])[:3]:
        if word.lower() not in _OPENERS:
            return word.lower() in _VERBS
    return False


_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'(*_`\[]*[A-Z0-9])|\n(?=\s*(?:[-*+]|\d+[.)]) )|\n\s*\n")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text without code, each on one line; list items count as sentences."""
    for part in _SENTENCE.split(text):
        if line := " ".join(part.split()):
            yield line


_EXPECT = re.compile(
    r"\b(?:expect(?:ed)?\b|should (?:now )?(?:see|show|be|return|read|say|print|list|have|come|drop|fall|rise|start|report|look)|you(?:'ll| will) see|healthy (?:is|means|looks))",
    re.IGNORECASE,
)
_CHECK = re.compile(r"\b(?:verify|confirm|validate|double-check|make sure|check (?:that|whether|if))\b", re.IGNORECASE)
_FAILS = re.compile(
    r"\bif (?:it|this|that|these|they|those|none|not|nothing|all|there|the|you|one|any|either)\b[^.]{0,200}?\b(?:fails?|failed|doesn't|does not|don't|do not|didn't|isn't|is not|aren't|are not|can't|cannot|still|persists?|remains?|keeps?|"
    r"errors?|without|no |never|nothing|continues?)|\bif (?:not|that fails|it fails)\b|\botherwise\b|\bin case of (?:failure|an? error)\b",
    re.IGNORECASE,
)
_GOES_TO = re.compile(
    r"\b(?:go(?:es)? (?:back )?to|see|skip to|continue (?:with|at|in|to)|proceed (?:to|with)|jump to|follow|use|return to|then|try)\s+\**(?:step|section)s?\s*\**\s*(\d{1,3}(?:\.\d{1,3})?)",
    re.IGNORECASE,
)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)[^)]*\)")
_APPROVAL = re.compile(
    r"\b(?:approv\w+|sign-?off|permission (?:of|from)|authori[sz]ation (?:of|from)|(?:agree|agreement|consent|ok|okay|go-ahead) (?:of|from|with)|ask \w+[^.]{0,60}\bbefore|two-?person|second pair of eyes)\b",
    re.IGNORECASE,
)
_WARNING = re.compile(
    r"\b(?:never|do not|don'?t|dont|must not|mustn't|should not|shouldn't|warning|caution|danger(?:ous)?|careful(?:ly)?|beware|avoid|irreversib\w+|cannot be undone|can't be undone|data loss|lose data|"
    r"made? (?:it|things) worse|risk(?:y|s)? (?:of|to)|destructive|disruptive|downtime|not safe|unsafe|only (?:if|when|after|as a last)|last resort)\b",
    re.IGNORECASE,
)


def expectation(lines: list[str]) -> str:
    return next((line for line in lines if _EXPECT.search(line)), "")


def check(lines: list[str]) -> str:
    return next((line for line in lines if _CHECK.search(line)), "")


def failure(lines: list[str]) -> tuple[str, str]:
    """The sentence that says what to do if the step fails, and the number of the step or the address of the page that it leads to."""
    found = next((line for line in lines if _FAILS.search(line)), "")
    if not found:
        return "", ""
    step, link = _GOES_TO.search(found), _LINK.search(found)
    return found, step[1] if step else (link[1] if link else "")


def approval(lines: list[str]) -> str:
    return next((line for line in lines if _APPROVAL.search(line)), "")


def warnings(lines: list[str]) -> tuple[str, ...]:
    return tuple(line for line in lines if _WARNING.search(line))
