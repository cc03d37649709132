"""Reads a judgment in free wording: does it say that thinking is needed ("think") or not ("direct")?

`response` calls this for rule 4 of the format. The method fits on a page: words are looked up in small
tables, a judgment is cut into clauses, and inside a clause every mention of thinking or of answering directly
is one vote, which a negation turns round. The votes must agree. One pass over the words: linear in the text.

    "This cannot be solved without reasoning."      not, without, reasoning     -> think
    "Thinking is not needed; a glance is enough."   thinking, not | glance      -> direct
"""

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Literal

Decision = Literal["think", "direct"]


def read_decision(judgment: str) -> Decision | None:
    """Return "think" or "direct", or None where the judgment says neither, or both, or nothing.

    The naming of a mode outranks the work to be done, that what the picture shows, that how hard the question
    is, and all of them a concession ("it looks simple, but ..."). Never raises.

    >>> read_decision("This question can't be answered directly.")
    'think'
    >>> read_decision("It looks hard, but no step-by-step reasoning is required.")
    'direct'
    >>> read_decision("think or direct") is None
    True
    """
    votes = [vote for clause in _clauses(_words(judgment)) for vote in _votes(clause)]
    top = min((vote.rank for vote in votes), default=0)
    sides = {vote.side for vote in votes if vote.rank == top}
    return sides.pop() if len(sides) == 1 else None


# -------------------- the tables
# Words are lower case, contractions opened ("isn't" is "is not"), hyphens made spaces.

_VERB = "ai|are|ca|can|could|did|do|does|had|has|have|is|must|need|should|was|were|wo|would"
_THOUGHT = "(?:thinking|reasoning|thought|think)"
_SEE = "identif|look|nam|read|recogni|see|spot"
_SHOWN = "(?:answer|colou?r|number|result|solution|value|word)"
_MENTAL = "(?!about |carefully |first|hard|step|through)"  # "I think first" thinks, "I think that" does not

# Phrases rewritten before the words are looked up, in this order. A word with an underscore is made here.
_REWRITES: list[tuple[str, str]] = [
    (rf"\b({_VERB})(?:n'?t|not)\b", r"\1 not"),
    (r"'s\b", " is"),
    # "Isn't it simple?" asks the same as "Is it simple?"; who says "can and cannot" or "or not" says both.
    (rf"(^|[,.:;!?] ?)({_VERB}) not (?=(?:an?|i|it|one|th\w+|we|you)\b[^.;!?]{{0,200}}\?)", r"\1\2 "),
    (r"\b(\w+) (?:and|but|or) (?:it )?(?:not \1|\1 not)\b|\bor not(?= ?(?:[.;!?]|$))", "unclear"),
    (r": ?0\b(?!\.\d)", ": no"),
    (r": ?1\b(?!\.\d)", ": yes"),
    (r"\bno longer\b|\banything but\b|\bfar from\b|\bby no means\b", "not"),
    (r"\b(?:nothing|none) but\b", "only"),
    (r"\ball (?:(?:i|is|it|one|that|we|you) ){1,2}(?:need|requir|tak)\w*(?: to do)? is(?: to)?\b", "only"),
    (r"\b(?:way|getting) a?round\b|\bescaping\b|\b(?:alternative|substitute) (?:for|to)\b", "avoiding"),
    (r"\b(?:error|mistake) prone\b|\blead to (?:an? )?(?:error|mistake)s?\b", "risky"),
    (r"\badds? (?=any|little|much|no)", "helps "),
    (r"\b(?:a|its|the) count\b", "number"),
    (r"\b(any|little|no|not) (?:good |real )?reasons? (?:for|to)\b", r"\1 need to"),
    (r"\b(?:following|good|main|same|simple|that|the|these|this) reasons?\b(?! through)", "because"),
    (r"\b(?:rationale|reason|reasoning|thoughts?) ?:(?! ?(?:false|ne|no|re|true|un|yes))", "because "),
    (rf"\b(?:i|one|we|you) (?:do|would) not (?:believe|feel|suppose|think) (?=\w){_MENTAL}", "not "),
    (rf"\b(?:i|we|(?:one|you) (?:might|would)) (?:think|thought) (?=\w){_MENTAL}", " "),
    (r"\b(?:no|without(?: a| any)?) (?:doubt|question(?= that\b))", " "),
    (r"\b(?:not|without) hesitat(?:e|ion)(?: to)?\b", "directly"),
    (r"\bwithout (?:any |great |much )?(?:ado|delay|difficulty|effort|further ado|trouble)\b", "easily"),
    (r"\blittle if any\b|\blittle (?:or|to) no\b", "no"),
    (r"\ba little\b", "some"),
    (r"\bof (?:little|no) (?:benefit|help|use|value)\b|\bhas no (?:place|role|room)\b", "useless"),
    (r"\bout of the question\b|\b(?:left|ruled) out\b", "impossible"),
    (r"\bun(answerable|solvable)\b", r"not \1"),
    (r"\b(avoid|no|skip|without)( any)? (?:excessive|needless|unnecessary)\b", r"\1"),
    (r"\bno brainer\b|\bno (?:problem|trouble)\b|\bself evident\b", "easy"),
    (r"\b(?:low|minimal) (?:complexity|difficulty)\b", "easy"),
    (r"\b(?:complexity|difficulty) ?:? ?(?:is )?(?:low|minimal)\b", "easy"),
    (r"\bhigh (?:complexity|difficulty)\b|\b(?:complexity|difficulty) ?:? ?(?:is )?high\b", "hard"),
    (r"\banswer(?:ed|ing)? straight\b|\bjust (?:answer|give|report|say|state)\b", "directly"),
    (rf"\b(?:just|merely|only|simply)(?: (?:a|have|matter|need|of|to)){{0,4}} (?={_SEE})", "glance "),
    (r"\bnot (?:just|merely|only)\b|\bmore than\b|\bbeyond\b", "not_just"),
    (r"\b(?:better|rather) than\b|\bin(?:stead| place) of\b", "rather_than"),
    (r"\btoo (\w+) (?:for|to)\b", r"\1 too_to"),
    (r"\b(difficult|hard|tricky) to (?=answer|be|do|read|say|see|solve|tell|work)", r"\1 too_to "),
    (rf"\b(?:read|see|spot)(?:ing|s)? the (?={_SHOWN}\b)", "visible "),
    (
        rf"\b({_SHOWN} is(?: not)?) (?:just |right )?(?:given|here|(?:in|on) the|there|written)\b",
        r"\1 visible",
    ),
    (r"\b(?:figur|reason|think|work)(?:e|ed|ing|s)?(?: \w+)? (?:out|through)\b", "reasoning"),
    (r"\bstep by step\b|\bstep ?wise\b", "step_by_step"),
    (r"\bmulti ?(?:hop|steps?)\b|\b(?:multiple|several) steps\b", "step_by_step"),
    (r"\b(?:one|single) step\b|\bin one go\b", "easily"),
    (r"\b(?:right|straight) (?:away|off)\b|\bstraight from\b|\bat once\b|\bin no time\b", "directly"),
    (r"\b(?:careful|close|closer|second) look\b", "careful"),
    (r"\b(?:a(?: \w+)?|brief|first|mere|one|quick|single) look\b|\bread(?:ing)? (?:off|from)\b", "glance"),
    (r"\blook at\b", "glance"),
    (r"\bbe (?:read|seen)\b", "be visible"),
    (r"\bis all (?:it |that is |you )?(?:need|requir|tak)\w*", "easily"),
    (rf"\b({_THOUGHT}(?: mode)?) (?:disabled|free|off)\b", r"\1 unnecessary"),
    (r"\bnothink(?:ing)?\b", "no thinking"),
    # "Without reasoning, this cannot be solved", "Not needed: thinking": put where it belongs, in bounds.
    (r"\b(unless|until|without) ([^,.;:!?]{1,40}), ([^,.;:!?]{1,200})", r"\3 \1 \2"),
    (rf"\b(not \w+|un\w+|needed|required) ?: ?((?:\w+ ){{0,3}}{_THOUGHT})(?= ?(?:[.;!]|$))", r"\2 : \1"),
]
_PATTERNS = [(re.compile(pattern), new) for pattern, new in _REWRITES]

# Mentions of a mode with their rank: 1 names the mode, 2 the work to be done, 3 what the picture shows, 4 how
# hard the question is. A "~" stands for any of the endings.
_RANKED: dict[tuple[Decision, int], str] = {
    ("think", 1): """contemplat~ cot deliberat~ overthink~ ponder~ reason~ step_by_step think~ thought
        thoughts""",
    ("think", 2): """add~ algebra analys~ analytical analyz~ arithmetic calculat~ combin~ compar~ comparison
        comput~ consideration count~ deduc~ deduct~ deriv~ divid~ effort equation~ infer~ inference inferr~
        logic logical math mathematic~ maths multiplied multiply~ planning proof reflect~ solving steps
        subtract~""",
    ("direct", 1): "direct directly immediate immediately instant instantly straightaway",
    ("direct", 2): """glance inspection looking lookup observation perception perceptual recognition sight""",
    ("direct", 3): "legible printed readable recall~ shown visible",
    ("think", 4): """careful carefully challenging complex complicated demanding difficult hard harder
        intermediate intricate nontrivial subtle tricky""",
    ("direct", 4): """basic easier easily easy effortless elementary evident obvious quick quickly simple
        simpler simplicity straightforward trivial trivially uncomplicated""",
}
_HARD = 4
_ENDINGS = ["", "ation", "ations", "e", "ed", "es", "ing", "ion", "ions", "is", "ition", "s"]
_CUES = {
    word.removesuffix("~") + ending: cue
    for cue, words in _RANKED.items()
    for word in words.split()
    for ending in (_ENDINGS if word.endswith("~") else [""])
}


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Negations. "not" turns what follows it, or else what came before ("reasoning does not help"); a negative
# predicate looks back first ("thinking is unnecessary"); the rest look only forward.
_NOT = _set("barely false hardly neither never none nothing not rarely scarcely seldom")
_PREDICATE = _set("""absent avoided dispensable excessive fail fails impossible inadequate inadvisable
    inappropriate insufficient mistake needless needlessly nil omitted optional overkill pointless
    premature redundant risky skipped superfluous uncalled unnecessarily unnecessary unneeded unreliable
    unsafe unwarranted unwise useless waste wasteful wrong""")
# With "not" before it, each of these makes a negative predicate: "not needed".
_AFTER_NOT = _set("""adequate advisable allowed appropriate called enough essential helpful necessary
    needed possible required sufficient suitable useful wanted warranted worthwhile""")
_FORWARD = _set("""avoid avoiding before doubt doubtful lack lacks little minimal no nobody non nor omit
    rather_than skip skipping than too_to unable unless until without zero""")
_REOPEN = _set("before nor or too_to unless until without")  # an outer "not" reaches past these words ...
_REOPEN_PLAIN = _set("enough that to")  # ... or these after rank 4: "not simple enough to"

_BREAKS = _set(""". ; ! ? : although albeit because but despite hence however since so therefore though thus
    whereas while yet""")
_SOFT_BREAKS = _set(", and then")  # not a break inside a list: "no thinking, reasoning or calculation"
_CONCESSIONS = _set("albeit although appears despite looks seem seems though whereas while")
_LONGEST = 60  # words in a clause: no sentence is longer, and it keeps repetitive text linear
_HEADS = _set("case exercise image item one picture problem puzzle query question questions task")
_FILLERS = _set("a an any of or nor some the")
_REPLIES = (
    _PREDICATE
    | _AFTER_NOT
    | _set("""all at definitely does exactly false here is it need no none nope
    not on quite really skip so that to true yes""")
)
_UNDECIDED = re.compile(
    r"\b(?:uncertain|unclear|undecided|unsure|not (?:certain|clear|know|sure)|hard too_to (?:say|tell)"
    r"|(?:can|could) not (?:decide|say|tell)"
    r"|whether (?:or not )?(?:a direct|i|it|reasoning|step_by_step|thinking|this|to|we))\b"
)


# -------------------- the reading


@dataclass
class _Clause:
    words: list[str] = field(default_factory=list)
    concession: bool = False
    end: str = ""  # the word that ended it
    reply: str = ""  # "yes" or "no", the short answer after it: "Thinking needed? No."
    asked: bool = False  # that answer is about the clause; after "Thinking is optional" it only confirms it


@dataclass
class _Vote:
    side: Decision
    rank: int
    subject: bool  # a later negation may turn it: "thinking is not needed", unlike "this simple task is not"
    turned: bool = False

    def turn(self) -> None:
        self.turned = not self.turned
        self.side = "direct" if self.side == "think" else "think"


def _words(judgment: str) -> list[str]:
    """Lower-case words and punctuation, with typography levelled and the phrases rewritten."""
    text = re.sub("[\u2018\u2019\u201b\u02bc\u2032\u00b4`]", "'", judgment)
    text = "".join(c for c in text if unicodedata.category(c) != "Cf").casefold()  # zero-width characters
    text = re.sub("[\u2014\u2015]|\\s[-\u2010-\u2013\u2212]{1,3}\\s", " ; ", text)
    text = re.sub(r"[^\w',.;:!?=]|_", " ", text).replace("=", ":")
    text = " ".join(text.split())
    for pattern, new in _PATTERNS:
        text = pattern.sub(new, text)
    return re.findall(r"\w+(?:'\w+)*|[,.;:!?]", text)


def _clauses(words: list[str]) -> list[_Clause]:
    """Cut at punctuation and conjunctions; drop what only asks or wonders, unless a reply settles it."""
    clauses: list[_Clause] = []
    clause = _Clause()
    for i, word in enumerate([*words, "."]):
        if i < len(words) and len(clause.words) < _LONGEST and not _breaks(words, i):
            clause.words.append(word)
            clause.concession |= word in _CONCESSIONS
            continue
        if clauses and clause.words and _REPLIES.issuperset(clause.words):
            negations = sum(w in _NOT or w in _FORWARD or w in _PREDICATE for w in clause.words)
            clauses[-1].reply = "no" if negations % 2 else "yes"
            clauses[-1].asked = clauses[-1].end == "?" or (clauses[-1].end == ":" and len(clause.words) == 1)
        elif clause.words:
            clause.end = word
            clauses.append(clause)
        clause = _Clause(concession=word in _CONCESSIONS)
    return [c for c in clauses if c.reply or not (c.end == "?" or _UNDECIDED.search(" ".join(c.words)))]


def _breaks(words: list[str], i: int) -> bool:
    """Whether a clause ends at word i."""
    word, before, after = words[i], words[i - 1] if i else "", words[i + 1 : i + 5]
    if word == "so":  # "so think", but "so simple" and "not so hard that ..."
        return _CUES.get("".join(after[:1]), ("", 0))[1] != _HARD
    if word == "," and after[:1] in (["or"], ["nor"]):
        return False
    if word in _SOFT_BREAKS:
        nearest = next((w for w in after if w not in _FILLERS and w not in _SOFT_BREAKS), "")
        (side, rank), (other_side, other_rank) = _CUES.get(before, ("", 0)), _CUES.get(nearest, ("", 0))
        listed = side and side == other_side and (rank == _HARD) == (other_rank == _HARD)
        return not listed  # "sums, reasoning" and "simple, easy" are lists, "hard, thinking" is not
    return word in _BREAKS


def _votes(clause: _Clause) -> list[_Vote]:
    """One vote for each mention of a mode, turned by the negations that reach it."""
    votes: list[_Vote] = []
    open_negations = 0  # that reach the words to the right
    reached: Decision | None = None  # the side of the mention they met: they stop at the other side
    waiting = 0  # verb negations that have met no mention yet, and at the end look back
    not_just = False
    words = clause.words
    for i, word in enumerate(words):
        if word in _CUES:
            side, rank = _CUES[word]
            if reached not in (None, side):
                open_negations = 0
            rank += _HARD * clause.concession
            vote = _Vote(side, rank, subject=_HEADS.isdisjoint(words[i + 1 : i + 2]))
            if (open_negations + (not_just and side == "direct")) % 2:
                vote.turn()
            votes.append(vote)
            reached, waiting = side, 0
            continue
        if word in _REOPEN or (word in _REOPEN_PLAIN and votes and votes[-1].rank % _HARD == 0):
            reached = None
        if word == "not_just":  # "more than a glance" is thinking, and so is "more than one thought"
            not_just = not not_just
        kind = _negation(words, i)
        if kind == "predicate" and any(vote.subject for vote in votes):
            _turn_back(votes)
        elif kind:
            if reached is not None:
                open_negations, reached = 0, None
            open_negations += word != "nor" or not open_negations  # "neither ... nor" is one negation
            waiting += kind == "verb"
    if waiting % 2:
        _turn_back(votes)
    if clause.reply == "no":
        for vote in votes:
            if clause.asked or not vote.turned:
                vote.turn()
    return votes


def _negation(words: list[str], i: int) -> Literal["verb", "predicate", "forward", None]:
    """What kind of negation word i is. "not skipped" is none, "not needed" is a predicate."""
    word, near = words[i], words[i + 1 : i + 3]
    if word in _NOT:
        if not _PREDICATE.isdisjoint(near):
            return None
        return "verb" if _AFTER_NOT.isdisjoint(near) else "predicate"
    if word in _PREDICATE:
        return None if not _NOT.isdisjoint(words[max(0, i - 2) : i]) else "predicate"
    return "forward" if word in _FORWARD else None


def _turn_back(votes: list[_Vote]) -> None:
    """Turn the nearest earlier subject, with all that stands on its side."""
    subjects = [vote for vote in votes if vote.subject]
    if subjects:
        side = subjects[-1].side
        for vote in subjects:
            if vote.side == side:
                vote.turn()
