"""The SQL that a plan may contain: SELECTs, made of what is listed here and nothing else.

Everything that is not listed is refused. A new function of a later engine is therefore refused too.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection
from functools import cache, lru_cache
from itertools import pairwise
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from sightline.errors import InvalidPlan

# sqlglot logs what it cannot read; a refusal says it in our words. Programs that set up logging still see it.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())

LARGEST_QUERY = 100_000  # bytes
DEEPEST_QUERY = 150  # nested expressions; DuckDB's own limit is 1,000
# In a subquery ``data`` has a name of its own, which nobody wrote.
_QUALIFIED, _SUBQUERY_DATA = re.compile(r'"data(?: [0-9a-f]+)?"\.'), re.compile(r'"data [0-9a-f]+"')
_MOST_PARSED = 1_000  # queries whose trees are kept: each step of an audit parses its releases again

_PLACES = ("start", "end")  # of a name, as sqlglot calls them

# ROUND and casts of fractions to whole numbers are left out: engines round them differently.
SCALARS: tuple[type[exp.Expr], ...] = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple,
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE,
    exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike,
    exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Cast, exp.DataType,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Abs, exp.Floor, exp.Ceil, exp.Sign,
    exp.Pow, exp.WidthBucket,
    exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Substring, exp.Left, exp.Right, exp.Concat, exp.DPipe,
    exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfWeek, exp.DayOfWeekIso,
    exp.DayOfYear, exp.Hour, exp.Minute,
    exp.Extract, exp.TimestampTrunc, exp.DateTrunc, exp.Interval, exp.TimeToStr,
    # sqlglot wraps the arguments of Spark's functions of dates in these two; a plan cannot contain them.
    exp.TsOrDsToDate, exp.TimeStrToTime,
)  # fmt: skip
# A subquery of public columns is one, too: its answer is the same whenever it is asked.
_OF_SUBQUERY = (
    exp.Select, exp.Subquery, exp.Exists, exp.From, exp.Table, exp.TableAlias, exp.Where, exp.Group,
    exp.Having, exp.Alias, exp.Star, exp.Distinct, exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min,
    exp.Max, exp.Median,
)  # fmt: skip
WHOLE_NUMBERS = {exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT}
NUMBERS = WHOLE_NUMBERS | {exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL}
# Of public columns these are read too: the engine that publishes also decides in the audit.
_OF_PUBLIC = (exp.Round, exp.TryCast, exp.SimilarTo, exp.Array, exp.Any, exp.DataTypeParam, exp.Var)
_CASTS = NUMBERS | {
    exp.DType.BOOLEAN, exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.DATE,
    exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ,
}  # fmt: skip
_NOT_DETERMINISTIC = {
    "RAND", "RANDOM", "RANDN", "SETSEED", "UUID", "GEN_RANDOM_UUID", "UUIDV4", "UUIDV7", "NOW", "TODAY",
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_DATETIME", "LOCALTIME", "LOCALTIMESTAMP",
    "TRANSACTION_TIMESTAMP", "STATEMENT_TIMESTAMP", "CLOCK_TIMESTAMP", "NEXTVAL", "CURRVAL", "TXID_CURRENT",
    "CURRENT_USER", "SESSION_USER", "CURRENT_SETTING", "GETENV", "VERSION",
}  # fmt: skip
_CLAUSES = {
    "distinct": ("no DISTINCT", "group by the columns instead"),
    "offset": ("no OFFSET: which groups appear would depend on the data", "publish every group, noisy"),
    "fetch": ("no FETCH: which groups appear would depend on the data", "publish every group, noisy"),
    "qualify": ("no QUALIFY", "publish every group, noisy"),
    "windows": ("no WINDOW", "use GROUP BY"),
    "sample": ("no sampling: each run would publish different rows", "publish all rows"),
    "laterals": ("no LATERAL", "join declared tables only"),
    "pivots": ("no PIVOT", "use GROUP BY"),
    "into": ("no SELECT INTO: a plan cannot write", "leave INTO out"),
}
_READ_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit"}


def refuse(expected: str, *, got: object, fix: str = "") -> NoReturn:
    """Raise ``InvalidPlan`` on one line: what was expected, what the plan has, and how to repair it."""
    message = f"expected {expected}, got {got}" + (f"; {fix}" if fix else "")
    raise InvalidPlan(" ".join(message.split()))


@cache
def _dialect(name: str) -> sqlglot.Dialect:
    return sqlglot.Dialect.get_or_raise(name)


def text_of(node: exp.Expr, dialect: str) -> str:
    """A part of a query as SQL, without comments."""
    return node.sql(_dialect(dialect), comments=False)  # by name, a dialect would be made twice each time


def shown(node: exp.Expr) -> str:
    """Return a part of the plan's SQL as a message shows it: one line of at most 80 characters."""
    return shown_text(text_of(node, "duckdb"))


def shown_text(sql: str) -> str:
    """The same of a part that is written already."""
    text = " ".join(sql.split())
    text = _SUBQUERY_DATA.sub("data", _QUALIFIED.sub("", text))
    return text if len(text) <= 80 else text[:77] + "..."


def parse_query(sql: str, dialect: str) -> exp.Query:
    """Parse the one query in ``sql``: a SELECT, or several of them joined by UNION ALL."""
    return _query_of(sql, dialect).copy()  # callers change what they get


@lru_cache(maxsize=_MOST_PARSED)
def _query_of(sql: str, dialect: str) -> exp.Query:
    statements = _parsed(sql, dialect, _statements)
    if len(statements) != 1:
        refuse("one SELECT statement", got=f"{len(statements)} statements", fix="one release is one query")
    query = statements[0]
    if isinstance(query, exp.Pivot):  # DuckDB's own form of it
        query = exp.select("*").from_(exp.Subquery(this=query))
    if not isinstance(query, exp.Query):
        refuse_statement(query.key)
    return query


def clauses_of(node: exp.Expr) -> set[str]:
    """The parts that a SELECT or another node has."""
    return {name for name, value in node.args.items() if value}


def clause_of(node: exp.Expr, name: str) -> exp.Expr:
    """One part of a SELECT or another node: an empty one, without expressions, where it has none."""
    found: exp.Expr = node.args.get(name) or exp.Tuple()
    return found


def sources_of(select: exp.Select) -> list[exp.Expr]:
    """What FROM and JOIN of a SELECT name: tables and subqueries."""
    clauses = (select.args.get("from_"), *(select.args.get("joins") or ()))
    return [clause.this for clause in clauses if clause]


def has(node: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """Whether an expression is, or contains, something of some kinds."""
    return any(True for _ in node.find_all(*kinds))


def is_inside(node: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """Whether something of some kinds is around an expression."""
    return node.find_ancestor(*kinds) is not None


def is_plain(node: exp.Expr, *allowed: str) -> bool:
    """Whether a table or subquery has nothing but an alias without columns, and what is allowed."""
    listed = clause_of(node, "alias").args.get("columns")
    return clauses_of(node) <= {"this", "alias", *allowed} and not listed


def check_clauses(select: exp.Select) -> None:
    """Refuse clauses that the audit does not read."""
    for clause, value in select.args.items():
        if value and clause not in _READ_CLAUSES:
            expected, fix = _CLAUSES.get(clause, (f"no {clause.upper().strip('_')} clause", "leave it out"))
            refuse(
                expected,
                got=shown(value) if isinstance(value, exp.Expr) else clause.strip("_").upper(),
                fix=fix,
            )


def parse_condition(text: str, dialect: str) -> exp.Expr:
    """Parse one condition, such as ``home = 'A7'``."""
    (condition,) = _parsed(text, dialect, _condition)
    return condition


def check_public(expression: exp.Expr, *, dialect: str, functions: Callable[[], Collection[str]]) -> None:
    """Refuse an expression of public columns unless it is deterministic.

    ``functions`` lists those of which the engine says so: it computes the same in the audit as
    in the release.
    """
    for node in expression.walk():
        subquery = _OF_SUBQUERY if _is_plain(node) else ()
        check_deterministic(node, subquery, dialect=dialect, functions=functions)


def check_deterministic(
    node: exp.Expr,
    more: Collection[type[exp.Expr]],
    *,
    dialect: str,
    functions: Callable[[], Collection[str]],
) -> None:
    """Refuse one part of an expression that is not listed, here or in ``more``, as deterministic."""
    known = type(node) in SCALARS or type(node) in _OF_PUBLIC or type(node) in more
    if not known and not (isinstance(node, exp.Func) and _written_name(node, dialect) in functions()):
        _refuse_node(node)
    if isinstance(node, exp.In) and "field" in clauses_of(node):
        refuse("IN with a list of constants or a subquery", got=shown(node))
    if isinstance(node, exp.Like | exp.ILike) and "\\" in node.expression.name:
        refuse("a LIKE pattern without backslash", got=shown(node), fix="engines read it differently")
    if isinstance(node, exp.Literal) and not node.is_string and not _is_finite(node.name):
        refuse("a finite number", got=shown(node))


def _is_plain(node: exp.Expr) -> bool:
    """Whether it is part of a subquery, and no SELECT whose answer depends on an order."""
    allowed = {"expressions", "from_", "where", "group", "having", "kind"}
    if isinstance(node, exp.Select):
        return not [clause for clause, value in node.args.items() if value and clause not in allowed]
    return isinstance(node, exp.Subquery | exp.Exists) or is_inside(node, exp.Select)


def _written_name(call: exp.Expr, dialect: str) -> str:
    """The name of a function as the engine reads it; empty for what is no plain call."""
    if isinstance(call, exp.AggFunc):
        return ""
    name, bracket, _ = text_of(call, dialect).partition("(")
    return name.lower() if bracket and name.isidentifier() else ""


def check_node(node: exp.Expr) -> None:
    """Refuse one part of a row's expression, about the secret, that the audit cannot read."""
    if isinstance(node, exp.Var | exp.DataTypeParam) and isinstance(node.parent, exp.DataType):
        return
    if type(node) not in (*SCALARS, exp.Round):  # what a rounded secret is, the engine tabulates
        _refuse_node(node)
    match node:
        case exp.Cast() if node.args["to"].this not in _CASTS:
            refuse("a cast to a number, text, boolean, date or timestamp", got=shown(node))
        case exp.In() if not node.expressions:
            refuse(
                "IN with a list of constants, or a subquery of public columns",
                got=shown(node),
                fix="join a declared table instead; what is chosen by the secret would tell it",
            )
        case exp.Floor() | exp.Ceil() if clauses_of(node) & {"decimals", "to"}:
            refuse("FLOOR or CEIL of one number", got=shown(node), fix="divide first")


def _refuse_node(node: exp.Expr) -> NoReturn:
    name = (
        node.name
        if isinstance(node, exp.Anonymous)
        else node.sql_name()
        if isinstance(node, exp.Func)
        else node.key
    )
    name = name.upper()
    if name in _NOT_DETERMINISTIC:
        refuse(
            "deterministic functions only",
            got=f"{name}",
            fix="each run of the query would publish different numbers",
        )
    if isinstance(node, exp.Select | exp.Subquery | exp.SetOperation | exp.Exists):
        refuse("no subquery", got=shown(node), fix="join a declared table, or put the subquery into FROM")
    if isinstance(node, exp.Window):
        refuse(
            "no window function here",
            got=shown(node),
            fix="one of public columns goes into a subquery in FROM; a rank of the secret depends on "
            "everyone's: publish counts in fixed bands",
        )
    if isinstance(node, exp.AggFunc):
        refuse(
            "no aggregate inside a row's expression", got=shown(node), fix="aggregate in the SELECT list only"
        )
    if isinstance(node, exp.Round):
        refuse("FLOOR or CEIL", got=shown(node), fix="engines round halves differently")
    if isinstance(node, exp.Func):
        refuse(
            "a function of public columns that the engine says is deterministic",
            got=f"{name}(…)",
            fix="of the secret publish sums, means or counts, or make it the secret itself by [data] sql",
        )
    refuse("a plain expression of columns and constants", got=shown(node))


def refuse_statement(first: str) -> NoReturn:
    """Refuse what is no SELECT, by its first word."""
    refuse("a SELECT statement", got=f"{first[:20].upper()} …", fix="a plan can only read")


def _statements(sql: str, dialect: str, tokens: list[Token]) -> list[exp.Expr | None]:
    if tokens[0].token_type not in _FIRST_TOKENS:
        refuse_statement(tokens[0].text)
    parser = _dialect(dialect).parser(error_level=sqlglot.ErrorLevel.RAISE)
    return parser.parse(tokens, sql)  # sqlglot.parse would make the tokens again


def _condition(sql: str, dialect: str, tokens: list[Token]) -> list[exp.Expr | None]:
    return [sqlglot.parse_one(sql, read=dialect, into=exp.Condition, error_level=sqlglot.ErrorLevel.RAISE)]


_Parser = Callable[[str, str, list[Token]], list[exp.Expr | None]]


def _parsed(sql: str, dialect: str, parser: _Parser) -> list[exp.Expr]:
    size = len(sql.encode(errors="surrogatepass"))
    if size > LARGEST_QUERY:
        refuse(
            f"at most {LARGEST_QUERY:,} bytes of SQL",
            got=f"{size:,}",
            fix="put long lists into a declared table and join it",
        )
    if "\x00" in sql or (not sql.isprintable() and any(0xD800 <= ord(symbol) <= 0xDFFF for symbol in sql)):
        refuse("SQL as text", got="a NUL or a lone surrogate in it")
    try:
        tokens = _dialect(dialect).tokenize(sql)
        _refuse_template([token.token_type for token in tokens])
        if not any(token.token_type is not TokenType.SEMICOLON for token in tokens):
            refuse(
                "SQL",
                got="an empty text",
                fix="for example SELECT feeder, AVG(watts) FROM data GROUP BY feeder",
            )
        _check_texts(sql, tokens, dialect)
        parsed = parser(sql, dialect, tokens)
        trees = [one for one in parsed if isinstance(one, exp.Expr) and not isinstance(one, exp.Semicolon)]
        for tree in trees:
            _check_depth(tree)
            nodes = list(tree.walk())
            for node in nodes:
                # Places in the text, which take longer to copy than the tree, but for those of tables; and
                # what comments tell sqlglot: a mark of ours, which says how a node was made, must not come
                # from a comment.
                places = (node._meta or {}) if isinstance(node.parent, exp.Table) else {}
                node._meta = {name: places[name] for name in _PLACES if type(places.get(name)) is int} or None
            _use_standard_names(nodes, dialect)
            _check_formats(nodes, tokens, dialect)
            _check_names(nodes, tokens, dialect)
            text_of(tree, dialect)  # fails if sqlglot does not know a part of the tree
            if dialect == "spark" and "TRY_CAST" not in sql.upper():
                for cast in list(tree.find_all(exp.TryCast)):  # sqlglot reads Spark's plain CAST so
                    cast.replace(exp.Cast(**cast.args))
    except InvalidPlan:
        raise
    except RecursionError:
        refuse(f"SQL nested at most {DEEPEST_QUERY} deep", got="deeper", fix="split the release")
    except Exception as error:  # sqlglot raises AttributeError, TypeError and others on malformed text
        sets = any(word in sql.upper() for word in ("ROLLUP", "CUBE", "GROUPING SETS"))
        fix = "; inside ROLLUP, CUBE and GROUPING SETS put comparisons in brackets" if sets else ""
        refuse("SQL that can be parsed", got=_position(error), fix=f"check the query's spelling{fix}")
    return trees


def _refuse_template(kinds: list[TokenType]) -> None:
    """Refuse {{ … }} and {% … %}, but for those in a text or a comment, which are no tokens."""
    twice = any(pair == (TokenType.L_BRACE, TokenType.L_BRACE) for pair in pairwise(kinds))
    if twice or TokenType.BLOCK_START in kinds:
        refuse(
            "SQL that an engine reads",
            got="a template, with {{ … }} or {% … %}",
            fix="of a dbt project take target/compiled/…, or sightline init --from-dbt target/manifest.json",
        )


def _use_standard_names(nodes: list[exp.Expr], dialect: str) -> None:
    """Replace functions that sqlglot does not know by others that mean the same on the engine."""
    for call in [node for node in nodes if isinstance(node, exp.Anonymous)]:
        arguments = call.expressions
        match call.name.casefold():
            case "mean" if len(arguments) == 1 and dialect != "postgres":
                call.replace(exp.Avg(this=arguments[0]))
            case "date_part" | "datepart" if len(arguments) == 2 and arguments[0].is_string:
                call.replace(exp.Extract(this=exp.Var(this=arguments[0].name), expression=arguments[1]))
            case "isodow" if len(arguments) == 1:
                call.replace(exp.DayOfWeekIso(this=arguments[0]))
    for bins in [node for node in nodes if isinstance(node, exp.WidthBucket) and dialect == "duckdb"]:
        refuse("a function that DuckDB has", got=shown(bins), fix="bins of 10 are FLOOR(x / 10) * 10")


def _check_formats(nodes: list[exp.Expr], tokens: list[Token], dialect: str) -> None:
    """Refuse a format of times that sqlglot would write differently: Spark's YYYY is not its yyyy."""
    written = {token.text for token in tokens if token.token_type is TokenType.STRING}
    for node in [one for one in nodes if isinstance(one, exp.TimeToStr)]:
        texts = [
            one.text
            for one in sqlglot.tokenize(text_of(node, dialect), read=dialect)
            if one.token_type is TokenType.STRING
        ]
        if not set(texts) <= written:
            refuse(
                "a format of times that is read as it is written",
                got=shown(node),
                fix="for example years as %Y",
            )


def _check_names(nodes: list[exp.Expr], tokens: list[Token], dialect: str) -> None:
    """Refuse a function that sqlglot would write by another name, unless it is one of those listed here."""
    written = {token.text.lower() for token in tokens}
    for call in [node for node in nodes if isinstance(node, exp.Func)]:
        name = "" if type(call) in SCALARS else _written_name(call, dialect)
        if name and name not in written and type(call) not in _OF_PUBLIC:
            refuse(
                "a function that is read as it is written", got=shown(call), fix=f"write {name.upper()}(…)"
            )


def _check_texts(sql: str, tokens: list[Token], dialect: str) -> None:
    """Refuse text constants that sqlglot and an engine read differently.

    Spark reads ``'it''s'`` as ``it's``, and sqlglot as the two constants ``it`` and ``s``.
    """
    kind = TokenType.STRING
    if any(one.token_type is kind and other.token_type is kind for one, other in pairwise(tokens)):
        refuse("one text constant", got="two in a row", fix="on Spark write \\' for a quote in a text")
    texts = [sql[token.start : token.end + 1] for token in tokens if token.token_type is kind]
    if dialect == "spark" and any("\\" in re.sub(r"\\['\"\\]", "", text) for text in texts):
        refuse("text constants without escapes", got="a backslash in one", fix="write the character itself")


_FIRST_TOKENS = {TokenType.SELECT, TokenType.L_PAREN, TokenType.WITH, TokenType.FROM, TokenType.SEMICOLON}
_FIRST_TOKENS |= {TokenType.PIVOT}


def _is_finite(number: str) -> bool:
    try:
        return math.isfinite(float(number))
    except ValueError:  # 0E, 0x1F: the tokenizer accepts more than the engines
        return False


def _check_depth(tree: exp.Expr) -> None:
    level = [tree]
    for _ in range(DEEPEST_QUERY):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return
    raise RecursionError


def _position(error: Exception) -> str:
    if isinstance(error, ParseError) and error.errors and "line" in error.errors[0]:
        return f"a syntax error at line {error.errors[0]['line']}, column {error.errors[0]['col']}"
    return "a syntax error"
