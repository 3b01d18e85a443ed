"""The language of queries: from text to a :class:`Query`, without knowledge of any table.

::

    query    = measure [ "from" name ] [ "by" name {"," name} ] [ "within" name {"," name} ]
               [ "where" tests ]
    measure  = "count" | function "(" name [ "up to" value ] ")"
             | "quantile" "(" name [ "up to" value ] "," value ")"
             | ( "share" | "percent" ) [ "(" tests ")" ]
             | ( "support" | "entropy" ) "(" name ")"
             | "distance" "(" name "," value ")"
    function = "sum" | "average" | "rate" | "median" | "min" | "max" | "distinct"
    tests    = all {"or" all}
    all      = part {"and" part}
    part     = test | "(" tests ")"
    test     = name op value | value op name | value op name op value
             | name [ "not" ] "in" "(" value {"," value} ")"
             | name "between" value "and" value
             | name "is" [ "not" ] "null"
    op       = "=" | "!=" | "<" | "<=" | ">" | ">="

``from``, ``by`` and ``where`` may come in any order, and ``up to`` is for sums, averages and quantiles.
``share by sex`` is how the records that pass ``where`` are shared out to the groups, ``within`` others if
there are any; ``share(age < 20) by sex`` is which part of every group passes the test; and ``share where
age < 20`` is short for ``share(age < 20)``. A percent is a share times 100; of a single name in brackets,
which is no test, it is a rate. Support, entropy and distance (to uniform, over so many values) are of a
whole histogram of sizes: nothing stands behind them.
A name or value is a run of characters without spaces,
brackets, commas, quotes and comparison signs (``20-24``, ``85+``, ``N01``), or anything in single or double
quotes. The words of the language are read in any case.

``and`` binds closer than ``or``, as everywhere. What stands behind ``where`` can be read by itself
(:func:`parse_tests`): a release spec says so which records a table counts. Tests of nulls make sense only
there: no release says which values were null.

The parser is written out here because a SQL parser would save little of it: ``20 <= age < 30``, ``85+`` and
``20-24`` are no SQL, and every mistake is to be named with its character and how to correct it.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from typing import Literal, NoReturn, cast

from tabularium.mechanisms.errors import InputError

Property = Literal["support", "entropy", "distance"]
Measure = Literal["count", "sum", "average", "rate", "quantile", "min", "max", "share", "distinct"] | Property
Op = Literal["=", "!=", "<", "<=", ">", ">="]

MEASURES = (
    *("count", "sum", "average", "rate", "median", "quantile", "min", "max"),
    *("share", "percent", "distinct"),
)
PROPERTIES = ("support", "entropy", "distance")
"""What is asked of histograms of sizes."""
LONGEST = 10_000
"""Characters of a query."""
DEEPEST = 20
"""Brackets inside brackets."""

_ALIASES = {"avg": "average", "mean": "average", "minimum": "min", "maximum": "max", "percentage": "percent"}
_FLIPPED: dict[Op, Op] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SIGNS = {"==": "=", "<>": "!=", "≤": "<=", "≥": ">=", "≠": "!="}
_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>'[^']*'|"[^"]*")|(?P<sign><=|>=|!=|<>|==|[=<>≤≥≠])|(?P<mark>[(),])"""
    r"""|(?P<word>[^\s()=<>!,'"≤≥≠]+))"""
)


@dataclass(frozen=True)
class Word:
    """A name or a value, with the place of its first character, counted from 1."""

    text: str
    at: int


@dataclass(frozen=True)
class Comparison:
    """A comparison, with the attribute on the left; or, of ``20 <= age``, on ``either`` side."""

    left: Word
    op: Op
    right: Word
    either: bool = False

    @property
    def flipped(self) -> Comparison:
        """The same with its sides exchanged."""
        return Comparison(self.right, _FLIPPED[self.op], self.left)


@dataclass(frozen=True)
class Member:
    """Whether an attribute has, or has not, one of some values."""

    name: Word
    values: tuple[Word, ...]
    negated: bool = False


@dataclass(frozen=True)
class Null:
    """Whether an attribute of a record has no value, or has one."""

    name: Word
    negated: bool = False


@dataclass(frozen=True)
class Either:
    """Alternatives: one must hold, with all its tests."""

    options: tuple[tuple[Test, ...], ...]


Test = Comparison | Member | Null | Either


@dataclass(frozen=True)
class Query:
    """What is asked.

    Attributes
    ----------
    measure
        What is computed.
    of
        The attribute it is computed of; None for a count.
    up_to
        Where its last bin ends, if the query says so.
    share
        Of a quantile, which part of the records lies below it; one half of a median.
    table
        The table that is to be asked, if the query says so.
    by
        The attributes or levels that make the rows of the answer.
    where
        Tests that all must hold.
    within
        Of shares of groups: the attributes or levels in each of whose groups they add up to one.
    passing
        Of shares of the records that pass tests: these, which must all hold. Empty for shares of groups.
    percent
        Whether a share or a rate is asked for in percent.
    symbols
        Of a distance to uniform: how many values the column can have.
    """

    measure: Measure
    of: Word | None
    by: tuple[Word, ...]
    where: tuple[Test, ...]
    up_to: Word | None = None
    share: float = 0.5
    table: Word | None = None
    within: tuple[Word, ...] = ()
    passing: tuple[Test, ...] = ()
    percent: bool = False
    symbols: int = 0


@dataclass(frozen=True)
class _Token:
    kind: str  # word, quoted, sign, mark, end
    text: str
    at: int

    def means(self, word: str) -> bool:
        return self.kind == "word" and self.text.casefold() == word


def parse(text: str) -> Query:
    """Return the query that ``text`` says.

    Raises
    ------
    InputError
        Naming the character where the text stops being a query, and what may stand there.

    Examples
    --------
    >>> query = parse("count by region where 20 <= age < 30 and sex = F")
    >>> query.measure, [name.text for name in query.by], len(query.where)
    ('count', ['region'], 3)
    """
    return _Parser(_tokens(text)).query()


def parse_tests(text: str) -> tuple[Test, ...]:
    """Return the tests that ``text`` holds, as they stand behind ``where``; all of them must hold.

    Examples
    --------
    >>> len(parse_tests("age >= 15 and (status = employed or hours > 0)"))
    2
    """
    parser = _Parser(_tokens(text))
    result = parser.tests()
    if parser.now.kind != "end":
        parser.fail("go on with `and TEST` or `or TEST`")
    return result


def query_error(at: int, what: str, hint: str = "") -> InputError:
    """Return the error for a place in a query."""
    return InputError(what, where=f"query, character {at}", hint=hint)


def plain(text: str, limit: int = 40) -> str:
    """Return a piece of a query, or a label, as it may stand in an error: on one line, and not too long."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: limit + 1])
    return f"`{clean}`" if len(clean) <= limit else f"`{clean[: limit - 1]}…`"


def _tokens(text: str) -> list[_Token]:
    if len(text) > LONGEST:
        raise InputError("the query is too long", where="query", hint=f"write at most {LONGEST} characters")
    result, place = [], 0
    while match := _TOKEN.match(text, place):
        kind = str(match.lastgroup)
        piece = match[kind]
        shown = piece[1:-1] if kind == "quoted" else _SIGNS.get(piece, piece)
        result.append(_Token(kind, shown, match.start(kind) + 1))
        place = match.end()
    rest = text[place:].lstrip()
    if rest:
        at = len(text) - len(rest) + 1
        if rest[0] in "'\"":
            raise query_error(at, "these quotes are not closed", f"add a {rest[0]}")
        raise query_error(at, f"{plain(rest[0])} has no meaning here", "write != for not equal")
    return [*result, _Token("end", "", len(text) + 1)]


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0

    @property
    def now(self) -> _Token:
        return self.tokens[self.place]

    def take(self) -> _Token:
        token = self.now
        self.place += token.kind != "end"
        return token

    def takes(self, word: str) -> bool:
        """Go past a word of the language if it stands here, and say whether it does."""
        return self.now.means(word) and bool(self.take())

    def takes_mark(self, text: str) -> bool:
        return self.now.kind == "mark" and self.now.text == text and bool(self.take())

    def fail(self, hint: str) -> NoReturn:
        token = self.now
        what = "the query ends too early" if token.kind == "end" else f"{plain(token.text)} does not fit here"
        raise query_error(token.at, what, hint)

    def mark(self, text: str, hint: str) -> None:
        if not self.takes_mark(text):
            self.fail(hint)

    def word(self, hint: str) -> Word:
        if self.now.kind not in {"word", "quoted"}:
            self.fail(hint)
        token = self.take()
        return Word(token.text, token.at)

    def query(self) -> Query:
        asked = self.measure()
        by: tuple[Word, ...] = ()
        within: tuple[Word, ...] = ()
        where: tuple[Test, ...] = ()
        table: Word | None = None
        if asked.measure in PROPERTIES and self.now.kind != "end":
            self.fail(f"end here: {asked.measure} is of a whole histogram")
        while self.now.kind != "end":
            if self.now.means("group") and self.tokens[self.place + 1].means("by"):
                self.take()
            if not by and self.takes("by"):
                by = self.names()
            elif not where and self.takes("where"):
                where = self.tests()
            elif asked.measure == "share" and not within and self.now.means("within"):
                if asked.passing:
                    self.fail("`within` goes with share by NAME, and not with share(TEST)")
                self.take()
                within = self.names()
            elif table is None and self.takes("from"):
                table = self.word("name a table of the release")
            else:
                self.fail("go on with `by NAME`, `where TEST`, `and TEST` or `or TEST`")
        asked = replace(asked, by=by, where=where, table=table, within=within)
        if asked.measure != "share" or by or asked.passing:
            return asked
        if within:
            raise query_error(
                within[0].at, "`within` goes with share by NAME", "write share by NAME within NAME"
            )
        if not where:
            self.fail("write share by NAME, share(TEST) by NAME or share where TEST")
        return replace(asked, where=(), passing=where)

    def measure(self) -> Query:
        name = self.now.text.casefold()
        name = _ALIASES.get(name, name)
        if self.now.kind != "word" or name not in (*MEASURES, *PROPERTIES):
            self.fail(
                "begin with count, share, percent, sum(NAME), average(NAME), median(NAME), min(NAME) or "
                "max(NAME)"
            )
        percent = name == "percent"
        if percent and self.names_one():
            name = "rate"
        self.take()
        if name in {"share", "percent"}:
            passing: tuple[Test, ...] = ()
            if self.takes_mark("("):
                passing = self.tests()
                self.mark(")", "close the bracket with )")
            return Query("share", None, (), (), passing=passing, percent=percent)
        if name == "count":
            if self.now.text == "(" and self.now.kind == "mark":
                self.fail("write only count; what is counted stands behind `where`")
            return Query("count", None, (), ())
        second = {"quantile": ", 0.25", "distance": ", 5000"}.get(name, "")
        form = f"write {name}(NAME{second})"
        self.mark("(", form)
        of, up_to, share, symbols = self.word(form), None, 0.5, 0
        if name not in {"rate", "min", "max", "distinct", *PROPERTIES} and self.takes("up"):
            if not self.takes("to"):
                self.fail(f"write {name}(NAME up to NUMBER)")
            up_to = self.word("write the largest number of the last bin")
        if second:
            self.mark(",", form)
        if name == "quantile":
            share = self.share()
        if name == "distance":
            symbols = self.symbols()
        self.mark(")", form)
        kind = "quantile" if name == "median" else name
        return Query(cast(Measure, kind), of, (), (), up_to, share, symbols=symbols, percent=percent)

    def names_one(self) -> bool:
        """Return whether a single name stands in brackets behind this word."""
        rest = self.tokens[self.place + 1 : self.place + 4]
        kinds, texts = [token.kind for token in rest], [token.text for token in rest]
        return len(rest) == 3 and kinds[::2] == ["mark", "mark"] and texts[::2] == ["(", ")"]

    def share(self) -> float:
        """Return the part of the records that lies below a quantile."""
        word = self.word("write a part of the records such as 0.25")
        with contextlib.suppress(ValueError):
            if 0 < (share := float(word.text)) < 1:
                return share
        raise query_error(word.at, f"{plain(word.text)} is not between 0 and 1", "0.25 is the lower quartile")

    def symbols(self) -> int:
        """Return how many values a distance to uniform is over."""
        word = self.word("write how many values the column can have, such as 5000")
        if word.text.isascii() and word.text.isdigit() and len(word.text) <= 15 and int(word.text):
            return int(word.text)
        raise query_error(
            word.at, f"{plain(word.text)} is no number of values", "write a whole number from 1 on"
        )

    def names(self) -> tuple[Word, ...]:
        names = [self.word("name an attribute or a level")]
        while self.takes_mark(","):
            names.append(self.word("name an attribute or a level"))
        return tuple(names)

    def tests(self) -> tuple[Test, ...]:
        options = [self.all()]
        while self.takes("or"):
            options.append(self.all())
        return options[0] if len(options) == 1 else (Either(tuple(options)),)

    def all(self) -> tuple[Test, ...]:
        tests = self.part()
        while self.takes("and"):
            tests += self.part()
        return tests

    def part(self) -> tuple[Test, ...]:
        if self.depth == DEEPEST and self.now.text == "(" and self.now.kind == "mark":
            self.fail(f"write at most {DEEPEST} brackets inside one another")
        if not self.takes_mark("("):
            return tuple(self.test())
        self.depth += 1
        tests = self.tests()
        self.mark(")", "close the bracket with )")
        self.depth -= 1
        return tests

    def test(self) -> list[Comparison | Member | Null]:
        left = self.word("write a test such as age < 30 or sex = F")
        if self.takes("is"):
            negated = self.takes("not")
            if not self.takes("null"):
                self.fail("write is null or is not null")
            return [Null(left, negated)]
        negated = self.takes("not")
        if self.takes("in"):
            self.mark("(", "write in (A, B)")
            values = self.names()
            self.mark(")", "close the list with )")
            return [Member(left, values, negated)]
        if negated:
            self.fail("write not in (A, B)")
        if self.takes("between"):
            low = self.word("write between A and B")
            if not self.takes("and"):
                self.fail("write between A and B")
            high = self.word("write between A and B")
            return [Comparison(left, ">=", low), Comparison(left, "<=", high)]
        op = self.op()
        middle = self.word(f"write what {plain(left.text)} is compared with")
        if self.now.kind != "sign":
            return [Comparison(left, op, middle, either=True)]
        if op in {"=", "!="} or self.now.text in {"=", "!="}:
            self.fail("in 20 <= age < 30 both signs say less, or both more; put a name with a sign in quotes")
        second = self.op()
        if op[0] != second[0]:
            raise query_error(middle.at, "the two signs point in opposite directions", "write 20 <= age < 30")
        right = self.word(f"write what {plain(middle.text)} is compared with")
        return [Comparison(middle, _FLIPPED[op], left), Comparison(middle, second, right)]

    def op(self) -> Op:
        if self.now.kind != "sign":
            self.fail("write =, !=, <, <=, >, >=, in (A, B) or between A and B")
        return cast(Op, self.take().text)
