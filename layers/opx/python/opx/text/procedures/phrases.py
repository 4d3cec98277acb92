"""Recognises roles of headings, instructions, expectations, conditions and warnings in runbooks by English word lists.

Other languages and free style are matched as far as headings and list forms allow; text that isn't recognised is kept and has
no type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice

from opx.domain.procedures import SectionKind


def words(text: str) -> frozenset[str]:
    """The words of a list that is written as one string."""
    return frozenset(text.split())


def pattern(alternatives: str) -> re.Pattern[str]:
    """A pattern of alternatives, one a line, whatever the case."""
    return re.compile("|".join(_lines(alternatives)), re.IGNORECASE)


def _lines(alternatives: str) -> list[str]:
    return [line.strip() for line in alternatives.strip().split("\n")]


class Phrases:
    """Finds phrases in texts, whatever the case: alternatives, one a line, that begin a word (`\\b`), in small letters.

    Most texts are ASCII. In these a pattern of small letters is looked for behind each character that is in no word, which
    takes a fifth of the time of a case-insensitive search at each character."""

    def __init__(self, alternatives: str) -> None:
        lines = _lines(alternatives)
        assert all(line.startswith(r"\b") for line in lines)
        self._source = "|".join(line.removeprefix(r"\b") for line in lines)
        self._ascii = re.compile(rf"[^a-z0-9_](?:{self._source})")

    @cached_property
    def _any(self) -> re.Pattern[str]:
        return re.compile(rf"\b(?:{self._source})", re.IGNORECASE)

    def are_in(self, text: str) -> bool:
        """True if the text has one of the phrases."""
        if text.isascii():
            return self._ascii.search(f" {text.lower()}") is not None
        return self._any.search(text) is not None

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Spans of the phrases in the text, in order."""
        if self.are_in(text):
            yield from (found.span() for found in self._any.finditer(text))


# -- roles of headings

_ROLES = {
    SectionKind.PRECONDITIONS: r"""
        pre-?requisites?|pre-?conditions?|before you (?:start|begin)|requirements|access needed
        you (?:will )?need
    """,
    SectionKind.ROLLBACK: "roll(?:ing)?[ -]?back|undo|revert(?:ing)?|back ?out|fall ?back",
    SectionKind.ESCALATION: r"""
        escalat\w*|contacts?|who to (?:call|ask|page)|on-?call|support|getting help|help
    """,
    SectionKind.VERIFICATION: r"""
        verif\w*|validat\w*|confirmation|confirm (?:recovery|the (?:fix|resolution))
        check (?:that )?it (?:worked|works)|after(?:wards)?(?=\W*\Z)|post-?checks?|exit criteria|done when
    """,
    SectionKind.REFERENCES: r"""
        references?|related(?: .*)?|links|see also
        (?:useful|helpful|important|external|internal|other|quick) (?:links|references|resources|pages|docs)
        (?:further|additional|more) (?:reading|resources|information)|resources|documentation|other pages
    """,
    SectionKind.BACKGROUND: r"""
        meaning|background|overview|introduction|intro|context|how (?:it|this) works|description|about
        summary|abstract|architecture|default definition|history|why|timeline|contributing factors
        (?:root|possible|common|likely) causes?|causes?|lessons?(?: learn(?:ed|t))?|what went (?:well|wrong)
        where we got lucky|attendees|stats|action items|glossary|nomenclature|scope|when it (?:just )?works
        limits|trigger(?:s|ing)?|what (?:is|does) .*|prevention|preventing .*
        (?:process|technical) improvements|details(?=\W*\Z)
    """,
    SectionKind.SYMPTOMS: r"""
        symptoms?|signs?|alerts?|detection|alarms?|how (?:you|to) (?:notice|recogni[sz]e|tell).*|what you see
        what (?:you|users?|customers?|clients?) (?:will |may |might )?(?:see|notice|observe|experience)
        (?:observed|typical|common|usual|possible|likely|known|main|key|reported|other) symptoms?
        (?:\w+-)?(?:visible|facing) symptoms?|indications?
    """,
    SectionKind.IMPACT: r"""
        impact|severity|(?:customer|user|business|client|service|potential|expected|possible) impact|effects?
        consequences?|blast radius|(?:who|what) is (?:affected|impacted)
        (?:affected|impacted) (?:customers?|users?|services?|systems?)
    """,
    SectionKind.DIAGNOSIS: r"""
        diagnos\w*|investigat\w*|troubleshoot\w*|triage|debug\w*|analy[sz]\w*
        how (?:to|do i) (?:investigate|debug|diagnose).*|finding .*|identify\w*|checks?|cli checks
        first (?:look|checks|response)
    """,
    SectionKind.STEPS: r"""
        mitigat\w*|resol(?:ution|ve|ving)\w*|solutions?|fix(?:es|ing)?|remed\w*|repair\w*|recover\w*
        restor\w*|procedures?|steps?|actions?|what to do|how to .*|instructions|recommended actions?
        workarounds?|response|(?:short|long)-?term .*|playbook|runbook|immediate .*
    """,
}
_BEGINS = {kind: re.compile(rf"(?:{pattern(names).pattern})\b", re.IGNORECASE) for kind, names in _ROLES.items()}
_WHOLE = {kind: re.compile(rf"(?:{pattern(names).pattern})\Z", re.IGNORECASE) for kind, names in _ROLES.items()}
_NUMBER = re.compile(
    r"\s*(?:(?:step|phase|part|stage)\s+\d{1,3}\s*[.):–—-]?|\d{1,2}(?:\.\d{1,3})+[.)]?(?=\s)"
    r"|\d{1,2}(?:[.)](?!\d)|\s*:(?=\s)|\s+[–—-](?=\s))|[A-Za-z][.)](?=\s))\s*",
    re.IGNORECASE,
)
_ADORNED = re.compile(r"(?:\s|:[a-z0-9_+-]+:|[^\w\s&(\[\"'`*#-])+")
"""Emoji and other symbols before a heading's words."""
_STEP_NUMBER = re.compile(r"\s*step\s+\d", re.IGNORECASE)
_MARKED = re.compile("[*`_[<#!]")
_WITHIN = "(?=[^\\s*_])(?:[^{}`]|`[^`]*`{}){{1,300}}?(?<=[^\\s{}])"
_STARRED, _UNDERLINED = _WITHIN.format("*", "", "*"), _WITHIN.format("_", "|(?<=[A-Za-z0-9])_+(?=[A-Za-z0-9])", "_")
_MARKS = re.compile(
    r"(?P<ticks>`(?<!``)`*)(?P<code>[^`]+)(?P=ticks)(?!`)"
    rf"|\*\*(?P<strong>{_STARRED})\*\*|\*(?<![A-Za-z0-9/.*]\*)(?![./)])(?P<em>{_STARRED})(?<![/(])\*(?![A-Za-z0-9/*]|\.\w)"
    r"|\*\*+(?<!/\*\*)(?!/)|\*(?<![\s\S]\*)(?:(?=[A-Za-z\"'(\[`])|\s+(?=[^*\s]))"
    rf"|_(?<![A-Za-z0-9/.$<{{_-]_)(?P<run>_{{0,2}})(?P<under>{_UNDERLINED})_(?P=run)(?![A-Za-z0-9_/])"
    r"|_(?<![\s\S]_)_{0,2}(?=[A-Za-z])|`+|#(?<![\s\S]#)#*\s|!(?<![\s\S]!)!!\s+\w+"
    r"|!\[(?P<image>[^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|\[(?P<link>[^\]]*)\](?:\([^)]*\)|\[[^\]]*\])"
    r"|</?(?:a|b|i|br|p|em|img|div|span|code|strong|details|summary|kbd|sub|sup)\b[^<>]{0,200}>"
)
"""Each alternative begins with a character, so that those are skipped that begin none. Stars and underscores are marks in
pairs around words; two stars and those at the start of text also where the text was cut before the second."""
_LABEL = re.compile(
    r"(\*\*|__)(?P<bold>[^*\n]{3,80}?)(?:[:.]\1|\1\s*:)|(?P<line>[^\n]{3,80}):\s*\Z|(\*\*|__)(?P<all>[^*\n]{3,80})\4\Z"
    r"|(?P<alone>[*_]?[A-Z][^\n.:]{2,30})\Z"
)


_CACHED = 2048
"""Headings whose roles are remembered: documents have the same ones."""


def plain(text: str) -> str:
    """A line without Markdown's marks and links, white space joined. Code spans lose their backticks only; stars and
    underscores that aren't marks stay: `rm /srv/*`."""
    if not _MARKED.search(text):
        return " ".join(text.split())
    return " ".join(_MARKS.sub(_marked_text, text).split())


def _marked_text(mark: re.Match[str]) -> str:
    if emphasised := mark["strong"] or mark["em"] or mark["under"]:
        return _MARKS.sub(_marked_text, emphasised)
    return mark["code"] or mark["link"] or mark["image"] or ""


def unnumbered(heading: str) -> str:
    """A heading without "Step 3:" or "2.1 " before it."""
    match = _NUMBER.match(heading)
    return heading[match.end() :] if match and match.end() < len(heading) else heading


def is_numbered(heading: str) -> bool:
    """True if a heading begins with a number or the number of a step."""
    match = _NUMBER.match(heading)
    return bool(match and re.search(r"\d", match[0]))


def is_step_number(heading: str) -> bool:
    """True if a heading begins with `Step` and its number."""
    return bool(_STEP_NUMBER.match(heading))


def _named(heading: str) -> str:
    """A heading's words without a number or symbols around them."""
    words = plain(heading)
    adorned = _ADORNED.match(words)
    return unnumbered(words[adorned.end() :] if adorned else words).strip(" :?!.")


@lru_cache(_CACHED)
def role_of(heading: str) -> SectionKind:
    """The role that a heading names, OTHER for none. One that is nothing but the name of a role comes before one that begins
    with it."""
    text = _named(heading)
    for table in (_WHOLE, _BEGINS):
        for kind, names in table.items():
            if names.match(text):
                return kind
    return SectionKind.OTHER


@lru_cache(_CACHED)
def is_role(heading: str, *, exactly: bool = False) -> bool:
    """True if a heading is nothing but the name of a role, such as `Diagnosis` or `Symptoms and impact`, or unless `exactly`,
    has it first, such as `Resolution steps`."""
    parts = re.split(r"\s+(?:and|or|/|&)\s+|\s*[/&,]\s*", _named(heading))
    return all(
        any(names.match(part) for names in _WHOLE.values())
        or (not exactly and role_of(part) is not SectionKind.OTHER and not begins_with_verb(part))
        for part in parts
    )


def label_of(paragraph: str) -> tuple[SectionKind, str] | None:
    """The role that a paragraph names instead of a heading, and the text behind its name: `How to **investigate**:` alone on
    its line, `**Rollback:** scale down again.` A line without a mark is nothing but the name of a role: `Symptoms`."""
    found = _LABEL.match(paragraph)
    if not found:
        return None
    label = plain(found["bold"] or found["line"] or found["all"] or found["alone"]).strip(" :")
    if len(label.split()) > 5 or not is_role(label, exactly=bool(found["alone"])):
        return None
    return role_of(label), paragraph[found.end() :].strip()


# -- instructions

_VERBS = words(
    """
    accept access acknowledge activate add address adjust advise align allow alter analyse analyze announce
    append apply approve archive ask assess assign attach attempt authenticate back backup balance begin block
    boot bounce bring browse build bypass calculate call cancel capture cd change check choose clean clear click
    clone close collect commit communicate compact compare complete compress configure confirm connect consider
    consult contact continue convert coordinate copy cordon correct correlate count create cut cycle deactivate
    debug decide declare decommission decrease define defrag defragment delete demote deploy deprovision
    describe destroy detach detect determine diagnose disable discard disconnect dismiss distribute do document
    double-check downgrade download downscale drain drop dump edit eject eliminate email enable encrypt engage
    enlarge ensure enter erase escalate establish estimate evacuate evaluate evict examine exclude exec execute
    exit expand explore export extend extract fail failover fallback fence fetch figure file fill filter find
    fix flush focus follow force format free gather generate get give go grab grant grep grow halt halve handle
    hit hold hover identify ignore import improve include increase inform inhibit init initiate insert inspect
    install investigate invoke isolate issue join keep kick kill label launch leave let limit link list load
    locate lock log login look lower make map mark measure merge migrate minimise minimize mirror mitigate
    modify monitor mount move mute narrow navigate notify observe obtain offload open operate optimise optimize
    order override page paste patch pause perform pick pin ping place plan point post power prepare preserve
    press prevent print probe proceed promote propagate provide provision prune publish pull purge push put
    quarantine query raise re-add re-apply re-create re-deploy re-enable re-enter re-run re-start reach read
    reapply reassign reattach rebalance rebase reboot rebuild recalculate recheck reconfigure reconnect record
    recover recreate recycle redeploy redirect redo reduce refer refresh regenerate register reinstall reissue
    reject relaunch relax release reload relocate remap remediate remember remount remove rename renew reopen
    repair repeat replace replay repoint report reprocess request rerun reschedule reseed resend reset reshard
    resize resolve respond restart restore restrict resubmit resume resync retrieve retry return revert review
    revisit revoke rewind roll rollback rotate route run save scale scan schedule scp seal search secure see
    select send set setup shard share shed shift shorten show shrink shut shutdown sign silence simulate size
    skip snapshot sort spin split ssh stabilise stabilize stagger start stash step-down stop store strip study
    submit suspend swap switch sync synchronise synchronize tag tail taint take talk tell terminate test
    throttle tidy toggle trace track transfer trigger troubleshoot truncate try tune turn type unassign unblock uncomment
    uncordon understand undo uninstall unlink unlock unmount unpause unregister unseal unset untag update
    upgrade upload upscale use vacate vacuum validate verify view visit wait warm warn watch wipe work write
    zoom
    """
)
_NOUNS = words(
    """
    access back block boot build call change contact copy count cut cycle document drain drop fail file fix
    force format label limit link list load lock log look map mark mirror monitor mount move order page patch
    place plan point post power probe process query record release report request reset return review route
    scale scan schedule search set shard share shift show size snapshot sort split start stop store swap switch
    sync tag test trace track transfer trigger type update upgrade use view watch work write
    """
)
"""Verbs that are nouns, too: `Load is high`, `Review apps allow us to deploy`."""
_OPENERS = words(
    """
    afterwards again also alternatively always and carefully directly finally first firstly gracefully immediately just
    lastly manually next now once optionally or otherwise please second secondly simply step temporarily then to
    """
)
_OBJECT_BEGINS = "the|an?|your|this|these|all|any|each|that|if|whether|for|to|in|on|of|with|from|by|into|at|as|until"
_FINITE = "is|are|was|were|has|have|will|can|may|might|should|must|allows?|means|shows?|fires?|contains?|does"
_STATEMENT = re.compile(
    rf"\W*[\w-]+(?:\s+(?!(?:{_OBJECT_BEGINS})\b)[\w-]+){{0,3}}?\s+(?:{_FINITE})\b",
    re.IGNORECASE,
)
_NOMINAL = re.compile(
    r"[\w-]*(?:ion|ing|ment|restart|checks?|cleanup|update|upgrade|reset|review|failover|switchover|scale-?up|scale-?down)\Z",
    re.IGNORECASE,
)
_WHO = "you|we|users?|admins?|administrators?|operators?|customers?|one"
_MAY = "can|should|must|may|might|could|needs? to|ha(?:ve|s) to|(?:need|have|want) to"
_SEES = "see|find|notice|expect|experience|encounter|receive|be|have"
_CAUSED = "caused|seen|found|observed|expected|reached|triggered|affected|lost"
_MODAL = Phrases(
    rf"""
    \b(?:{_WHO}) (?:also |will |then |now |first )?(?:{_MAY})(?! (?:also |now |then |still |only )?(?:{_SEES})\b)
    \b(?:should|must|needs? to|ha(?:s|ve) to) (?:then |first )?be \w+(?:ed|en|t|n)\b
    \bcan (?:then |also |now )?be (?!(?:{_CAUSED})\b)\w+(?:ed|en|t|n)\b
    \bit(?:'s| is) (?:best|advisable|recommended|safe|possible|necessary) to\b
    \brecommended to\b
    \bmake sure\b
    \btry (?:to|\w+ing)\b
    \bworth \w+ing\b
    \b(?:contact|ask|page|call) (?:the|your)\b
    \b(?:run|execute|use|running|using|executing|entering|with) (?:the following|(?:below|this|these) commands?)\b
    \bfollowing (?:prometheus |promql )?(?:commands?|queries|query)\b
    \bby following\b
    """
)
_CONDITION = re.compile(
    r"(?:if|when|once|in|should|after|before|for|on|from|to|as|while|unless|using|with|via|under|at|depending|e\.?g)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[,:;] ?| then | please |(?<=cases) |(?<=case) |(?<=needed) |(?<=necessary) |(?<=possible) |(?<=resort) "
)
_HEADED_CONDITION = re.compile(r"(?:if|when|in case|where)\b|.*(?:→|->|=>)", re.IGNORECASE)
_FURTHER = pattern(
    r"""
    \W*(?:please\W+)?(?:see|refer to|read|consult|visit)\b.*\bfor (?:more|additional|further|details)\b
    .*\bfor (?:more|additional|further|other) (?:details|information|tips|help|options|context)\b
    \W*read more\b
    \W*for details\b
    """
)
_FORBIDS = re.compile(r"\W*(?:please )?(?:do not|don'?t|never|avoid|watch out)\b", re.IGNORECASE)
_ANNOUNCES = Phrases(
    r"""
    \b(?:following|these|below|next) (?:\w+ )?(?:steps|actions|checks|instructions|procedures?|sections)\b
    \b(?:following|these|below|next) (?:\w+ )?(?:options|approaches|ways)\b
    \b(?:steps|actions|instructions) below\b
    \bas follows\b
    \bhere are\b
    \bsteps:\s*\Z
    """
)
_ANNOUNCES_OUTPUT = Phrases(
    r"""
    \b(?:sample|example|expected|typical) (?:\w+ )?(?:outputs?|results?|responses?|messages?)\W*\Z
    \boutputs? (?:\w+ ){0,3}(?:look|be|is|like|similar)\W*\Z
    \boutputs?\s*:\W*\Z
    \boutput (?:should|will) (?:contain|include|show|list|be)\b
    \b(?:looks?|something|similar) (?:like|to)(?: this)?\W*\Z
    \b(?:returns?|prints?|shows?|displays?|outputs)(?: (?:something|this|the following|an? \w+))?\W*\Z
    """
)
_NAMES_OUTPUT = re.compile(r"\W*(?:outputs?|results?)\W*\Z", re.IGNORECASE)
_LEADING = re.compile(
    r"^\W*(?:(?:\(?optional\)?|note|tip|important|warning|caution)\b\W*)?(?:step\s+\d+(?:\.\d+)*\W+)?", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


def is_instruction(text: str) -> bool:
    """True if a sentence is an instruction: it begins with an imperative, perhaps after a condition, or has a phrase such
    as `you can`. A pointer to further reading and a prohibition are none."""
    words = plain(_LEADING.sub("", text[:600]))
    if _FORBIDS.match(words) or _points_further(words):
        return False
    if begins_with_verb(words):
        return True
    if _CONDITION.match(words) and any(begins_with_verb(part) for part in _CLAUSE.split(words)[1:8]):
        return True
    return _MODAL.are_in(words)


def _points_further(text: str) -> bool:
    lower = text.lower()
    return ("for " in lower or "read more" in lower) and bool(_FURTHER.match(text))


def begins_with_verb(text: str) -> bool:
    """True if the text begins with an imperative, perhaps after words such as `then`. `Load is high` does not."""
    for found in islice(_WORD.finditer(text[:120]), 3):
        word = found[0]
        verb = word.lower()
        if verb not in _OPENERS:
            return verb in _VERBS and not (verb in _NOUNS and _STATEMENT.match(text[text.index(word) :][:200]))
    return False


def names_action(heading: str) -> bool:
    """True if a heading names something to do by a noun, such as `Credential update` or `Checking the disk`."""
    words = _WORD.findall(heading)
    return bool(words) and (words[0].lower().endswith("ing") or bool(_NOMINAL.match(words[-1])))


def is_condition(heading: str) -> bool:
    """True if a heading names the case that its section is for."""
    return bool(_HEADED_CONDITION.match(heading))


def announces_steps(paragraph: str) -> bool:
    """True if a paragraph only leads to the steps behind it, such as `The following steps can help:`."""
    return len(paragraph) < 400 and _ANNOUNCES.are_in(plain(paragraph))


def announces_output(paragraph: str) -> bool:
    """True if the code block behind a paragraph is output, such as after `Example output:`."""
    end = plain(paragraph[-200:])
    return _ANNOUNCES_OUTPUT.are_in(end) or bool(_NAMES_OUTPUT.match(end))


# -- sentences

_SENTENCE = re.compile(
    r"\s(?:(?<=[.!?]\s)(?<!\b[eE]\.g\.\s)(?<!\b[iI]\.e\.\s)(?<!\b[eE]g\.\s)(?<!\b[iI]e\.\s)(?<!\betc\.\s)(?<!\bvs\.\s)"
    r"(?<!\bcf\.\s)\s*(?=[\"'(*_`\[]{0,4}[A-Z0-9])|(?<=\n)(?=\s*(?:[-*+]|\d+[.)]) )|(?<=\n)\s*\n)"
)
"""White space between two sentences: a full stop, list item or blank line parts them."""
_EXPECT = Phrases(
    r"""
    \bexpect(?:ed)? (?:to (?:see|find|get|have)|that|the|an?|it|output|results?|values?|state|response)\b
    \b(?:is expected|expected:|expect to)\b
    \bshould (?:now |then )?(?:see|show|be|return|read|say|print|list|have|come|drop|fall|rise|report|look)\b
    \bshould (?:now |then )?(?:disappear|become)\b
    \byou(?:'ll| will) see\b
    \bhealthy (?:is|means|looks)\b
    """
)
_CHECK = Phrases(r"\b(?:verify|confirm|validate|double-check|make sure|check (?:that|whether|if))\b")
_WHAT = "it|this|that|these|they|those|none|not|nothing|all|there|the|you|one|any|either"
_NOT = "without|no|never|nothing|doesn't|does not|don't|do not|didn't|isn't|is not|aren't|are not|can't|cannot"
_STAYS = "still|persists?|remains?|keeps?|continues?"
_FAILS = Phrases(
    rf"""
    \bif (?:{_WHAT})\b[^.]{{0,200}}?\b(?:fails?|failed|{_NOT}|{_STAYS})\b
    \bif (?:not|that fails|it fails)\b
    \botherwise\b
    \bin case of (?:failure|an? error)\b
    """
)
_GO = "(?:goe?s?|goe?s? back|return|skip|jump) to|(?:continue|proceed) (?:with|at|in|to)|see|follow|use|repeat|then|try"
_GOES_TO = re.compile(
    rf"\b(?:{_GO})\s+[*\[]*(?:step|section)s?\s*\**\s*(\d{{1,3}}(?:\.\d{{1,3}})?)",
    re.IGNORECASE,
)
_LINK = re.compile(r"\[[^\]]{1,200}\]\(([^)\s]+)[^)]{0,200}\)")
_APPROVAL = Phrases(
    r"""
    \bapprovals?\b
    \bapproved by\b
    \b(?:must|has to|have to|needs? to|should) approve\b
    \bsign-?off\b
    \b(?:permission|authori[sz]ation) (?:of|from)\b
    \b(?:agree|agreement|consent|ok|okay|go-ahead) (?:of|from|with)\b
    \b(?:get|have|needs?|obtain|requires?|wait for|with|without) (?:[\w-]+ ){0,4}\w+['’]s? (?:ok|okay|permission|consent)\b
    \b(?:get|needs?|obtain|requires?|wait for|without) (?:(?:explicit|written) )?(?:permission|consent)\b
    \b(?:go-ahead|green light)\b
    \bask \w+[^.]{0,60}\bbefore\b
    \btwo-?person\b
    \bsecond pair of eyes\b
    """
)
_FORBIDDEN = Phrases(r"\b(?:do not|don'?t|never|avoid)\b")
_CLAUSE_BEGINS = re.compile(r"(?:\A|[,;:(–—]|\b(?:and|but|so|or|please|then))\W*\Z", re.IGNORECASE)
_WARNS_FIRST = re.compile(
    r"\W*(?:(?:warning|caution|danger|attention|careful|watch out)\b|(?:important|stop)\W*[:!]|disruptive\W*(?:[:!.]|\Z)"
    r"|(?:do this )?only (?:if|when|after|as)\b)|[^\w\s]*[\u26a0\u26d4\u2620\u2757\U0001f6a8\U0001f6d1]"
    r"|\W*\*\*(?:only|not) (?:on|in|during|for|before|with|without|from|by|one|once)\b[^*]*\*\*\W*\Z",
    re.IGNORECASE,
)
_DATA = r"(?:\w+ ){0,2}(?:data|databases?|messages|writes|contents?|backups?|history|records|transactions)"
_BE = r"(?:is|are|(?:will|would|may|might|can|could) be) (?:\w+ly )?"
_LOSS = rf"""
    \b(?:destructive|irreversibl[ey]|point of no return|no way back|no undo|data[ -]loss|loss of (?:\w+ )?data)\b
    \b(?:cannot|can't|can not) be (?:undone|reversed|reverted|rolled back|recovered|restored)\b
    \bpermanent(?:ly)? (?:delet|remov|destroy|eras|los)\w*
    \b(?:wipes|erases|destroys|will (?:\w+ )?(?:wipe|erase|destroy))\b
    \b(?:deletes|discards|drops|overwrites|truncates|purges|loses|lose|losing) (?:all|every|everything|{_DATA})\b
    \bremoves (?:everything|{_DATA})\b
    \bwill (?:\w+ )?(?:delete|discard|drop|overwrite|truncate|purge|remove) (?:everything|{_DATA})\b
    \bif (?:\w+ )?data loss (?:is|would be) (?:accept\w+|tolera\w+|ok|okay)\b
    \b(?:data|messages|writes|everything|history|records) (?:\w+ ){{0,5}}{_BE}(?:lost|deleted|gone)\b
    \b(?:data|messages|writes|everything|history|records) {_BE}(?:destroyed|wiped|erased|discarded)\b
"""
_LOSES = Phrases(_LOSS)
"""Something is lost: data, state or work in flight."""
_DENIES = re.compile(
    r"\bnon[- ]\Z"
    r"|(?:\b(?:no|zero|neither|never|less|least|not)|n't) (?!(?:run|use|do|execute|start|try|repeat|perform|skip)\b)"
    r"(?:\w+ ){0,2}\Z|\b(?:none|nothing) (?:\w+ ){0,4}\Z"
    r"|\b(?:without|avoid\w*|prevent\w*|against|rather than|instead of|suspect\w*|minimi[sz]\w*|reduc\w*|limit\w*|protect\w*"
    r"|assess\w*|estimat\w*|measur\w*|(?:check|look|watch|scan|monitor|search)\w* [^.,;:!?]*for)\b[^.,;:!?]{0,40}\Z"
    r"|\b(?:if|unless|when|where|until) (?:\w+ ){0,2}\Z|\bwhether\b[^.,;:!?]{0,60}\Z"
    r"|\b(?:from|due to|after|during|in case of|before) (?:(?:any|the|an?|other|more|doing anything) )?\Z",
    re.IGNORECASE,
)
_WARNING = Phrases(
    r"""
    \b(?:you )?(?:must|should)(?: not| never|n't)\b
    \b(?:warning|caution)\W*:
    \b(?:dangerous|beware|be aware|unrecoverable|permanently|is disruptive)\b
    \b(?:risky|unsafe|not safe|at your own risk)\b
    \blast resort\b
    \b(?:discards|overwrites|loses)\b
    \bmust (?:be|have been) [^.]{0,60}\b(?:first|before)\b
    \b(?:be (?:very )?careful|(?:use|with) (?:extreme )?(?:care|caution))\b
    \b(?:made|makes?|making) (?:it|things) worse\b
    \brisk of (?:\w+ ){0,2}(?:loss|losing|corruption|downtime|outage)\b
    \b(?:caus|result|lead|incur)\w* (?:\w+ ){0,4}(?:outage|downtime|interruption|disruption|corruption)\b
    """
    + _LOSS.strip()
)


def sentences(text: str) -> Iterator[str]:
    """The sentences of text without code, each on one line; list items count as sentences."""
    for part in _SENTENCE.split(text):
        if line := " ".join(part.split()):
            yield line


def expectation(lines: Sequence[str]) -> str:
    """The first sentence about the expected result."""
    return next((line for line in lines if _EXPECT.are_in(line)), "")


def check(lines: Sequence[str]) -> str:
    """The first sentence that asks for verification."""
    return next((line for line in lines if _CHECK.are_in(line)), "")


def failure(lines: Sequence[str]) -> tuple[str, str]:
    """The sentence about a step that fails, and the number of the step or the address of the page that it leads to."""
    for line in lines:
        found = next(_FAILS.places(line), None)
        if not found:
            continue
        step, link = _GOES_TO.search(line), _LINK.search(line)
        if step or link or any(map(is_instruction, (line[found[0] :], line[found[1] :].lstrip(" ,:;")))):
            return line, step[1] if step else (link[1] if link else "")
    return "", ""


def approval(lines: Sequence[str]) -> str:
    """The first sentence that requires approval."""
    return next((line for line in lines if _APPROVAL.are_in(line)), "")


def warnings(lines: Sequence[str]) -> tuple[str, ...]:
    """The sentences that warn or forbid."""
    return tuple(line for line in lines if _warns(line if line[:1] != "_" else line.strip("_")))


def _warns(line: str) -> bool:
    return bool(_WARNS_FIRST.match(line)) or _WARNING.are_in(line) or _forbids(line)


def destroys(line: str) -> bool:
    """True if a sentence says that something is lost for good, and doesn't deny it: `This deletes all data`, but not `to
    avoid data loss`."""
    return any(not _DENIES.search(line[:start][-80:]) for start, _ in _LOSES.places(line))


def _forbids(line: str) -> bool:
    """True if a clause of a sentence is a prohibition: `do not restart it`, but not `pods that do not restart`."""
    return any(_CLAUSE_BEGINS.search(line[:start][-20:]) for start, _ in _FORBIDDEN.places(line))
