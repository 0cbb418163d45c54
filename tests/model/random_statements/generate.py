"""A grammar of statements that are mostly right, and changes that make them wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from tests.model.random_statements import words

TOKEN = re.compile(r"\s+|'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\w+|[^\w\s]")


class Generator:
    """Statements that follow from a seed. `functions`: the names that calls may have; `corpus`: whole scripts."""

    def __init__(self, seed: int, functions: Sequence[str], corpus: Sequence[str]) -> None:
        self._random = Random(seed)
        self._functions, self._corpus = (*functions, *words.ELSEWHERE), corpus

    def script(self) -> str:
        """A script of the corpus with one or two changes."""
        text = self._random.choice(self._corpus)
        for _ in range(self._random.choice((1, 1, 2))):
            text = self._changed(text)
        return text

    def statement(self) -> str:
        """A generated statement, as it is or with one or two changes."""
        random = self._random
        text = self._generated()
        for _ in range(random.choice((0, 0, 0, 0, 0, 0, 1, 1, 2))):
            text = self._changed(text)
        return text

    def _generated(self) -> str:
        return self._pick(
            (6, lambda: f"CREATE MATERIALIZED VIEW made AS {self.query()} {self._emit()}"),
            (1, lambda: f"CREATE VIEW made AS {self.query()} {self._emit()}"),
            (2, self.query),
            (1, self._relation_ddl),
            (1, self._sink),
            (2, self._command),
        )

    def query(self, depth: int = 1) -> str:
        """A SELECT, perhaps with set operations or a CTE around it."""
        random = self._random
        if depth and random.random() < 0.12:
            word = random.choice(("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "MINUS", "UNION BY NAME"))
            return f"{self.query(depth - 1)} {word} {self.query(depth - 1)}"
        if depth and random.random() < 0.1:
            return f"WITH c AS ({self.query(depth - 1)}) SELECT * FROM c"
        relation, source = self._source(depth)
        columns = words.COLUMNS.get(relation, ("x",))
        timed = ("window_start", "window_end") if "(" in source else ()
        items = [self.expression(columns, random.randint(0, max(depth, 0))) for _ in range(random.randint(1, 3))]
        named = [f"{item} AS c{number}" if random.random() < 0.7 else item for number, item in enumerate(items)]
        if random.random() < 0.25:
            named = ["*"]
        where = f" WHERE {self.expression(columns, depth)}" if random.random() < 0.3 else ""
        grouping = self._grouping((*columns, *timed), named)
        return f"SELECT {', '.join(named)} FROM {source}{where}{grouping}{self._tail()}"

    def expression(self, columns: Sequence[str], depth: int = 2) -> str:
        """A scalar, an aggregate, a window function or a subquery over some columns."""
        random = self._random
        if depth <= 0 or random.random() < 0.3:
            return random.choice(columns) if random.random() < 0.75 else self._literal()
        inner = lambda: self.expression(columns, depth - 1)  # noqa: E731
        return self._pick(
            (4, lambda: f"{random.choice(self._functions)}({', '.join(inner() for _ in range(random.randint(0, 3)))})"),
            (4, lambda: f"({inner()} {self._mostly(words.BINARY, words.ODD_BINARY)} {inner()})"),
            (2, lambda: f"{random.choice(('SUM', 'COUNT', 'MIN', 'AVG', 'MAX'))}({inner()})"),
            (1, lambda: f"CAST({inner()} AS {random.choice(words.TYPES)})"),
            (1, lambda: f"CASE WHEN {inner()} THEN {inner()} ELSE {inner()} END"),
            (1, lambda: f"COUNT(DISTINCT {inner()}) FILTER (WHERE {inner()})"),
            (1, lambda: f"ROW_NUMBER() OVER (PARTITION BY {inner()} ORDER BY {inner()})"),
            (1, lambda: f"{inner()} IN ({self.query(depth - 2)})"),
            (1, lambda: f"EXISTS ({self.query(depth - 2)})"),
            (1, lambda: f"({self.query(depth - 2)})"),
            (1, lambda: f"{inner()} {random.choice(('IS NULL', 'IS TRUE', 'NOT IN (1, 2)', 'BETWEEN 1 AND 2'))}"),
            (1, lambda: f"EXTRACT({random.choice(('HOUR', 'DOW', 'EPOCH', 'x'))} FROM {inner()})"),
        )

    def _source(self, depth: int) -> tuple[str, str]:
        """(a relation whose columns are in scope, the text of FROM)."""
        random = self._random
        relation = random.choice(tuple(words.COLUMNS))
        time = words.TIMED.get(relation, "ts")
        other = random.choice(tuple(words.COLUMNS))
        duration = self._duration
        join = random.choice(("JOIN", "LEFT JOIN", "FULL OUTER JOIN", "CROSS JOIN", "LEFT SEMI JOIN", "ASOF JOIN", ","))
        on = "" if join == "," else f" ON {self.expression(words.COLUMNS[relation], 1)} = {self._column(other)}"
        within = random.choice(("", "", f" WITHIN {duration()}", f" AND {time} BETWEEN ts AND ts + {duration()}"))
        return relation, self._pick(
            (6, lambda: relation),
            (2, lambda: f"TUMBLE({relation}, {time}, {duration()})"),
            (1, lambda: f"HOP({relation}, {time}, {duration()}, {duration()})"),
            (1, lambda: f"SESSION({relation}, {time}, {duration()})"),
            (1, lambda: f"TABLE(TUMBLE(TABLE {relation}, DESCRIPTOR({time}), {duration()}))"),
            (1, lambda: f"{relation} WINDOW TUMBLING (SIZE {duration()})"),
            (3, lambda: f"{relation} {join} {other}{on}{within}"),
            (1, lambda: f"{relation} AS l JOIN {other} FOR SYSTEM_TIME AS OF l.{time} AS r ON true"),
            (1, lambda: f"({self.query(max(depth - 1, 0))}) AS s"),
            (1, lambda: f"{relation}, UNNEST(tags) AS t(x)"),
            (1, lambda: f"(VALUES (1, 'a'), ({self._literal()}, 'b')) AS t(x, y)"),
        )

    def _grouping(self, columns: Sequence[str], items: Sequence[str]) -> str:
        random = self._random
        if random.random() < 0.5:
            return ""
        keys = [random.choice(columns) for _ in range(random.randint(1, 2))]
        keys += [item.partition(" AS ")[0] for item in items if random.random() < 0.5 and item != "*"]
        grouping = self._pick(
            (8, lambda: ", ".join(keys)),
            (1, lambda: f"ROLLUP({', '.join(keys)})"),
            (1, lambda: f"GROUPING SETS (({keys[0]}), ())"),
            (1, lambda: f"{keys[0]}, window(ts, '1 minute')"),
            (1, lambda: f"TUMBLE(ts, {self._duration()})"),
            (1, lambda: random.choice(("1", "ALL", "()", "99", "SUM(price)"))),
        )
        having = f" HAVING {self.expression(columns, 1)}" if random.random() < 0.2 else ""
        return f" GROUP BY {grouping}{having}"

    def _tail(self) -> str:
        if self._random.random() < 0.8:
            return ""
        odd = ("QUALIFY 1 = 1", "LIMIT ALL", "OFFSET 2", "FOR UPDATE", "LIMIT -1", "ORDER BY nothing")
        return " " + self._mostly(("ORDER BY 1 LIMIT 3", "LIMIT 5", "ORDER BY 1"), odd)

    def _emit(self) -> str:
        return self._random.choice(words.EMITS) if self._random.random() < 0.4 else ""

    def _relation_ddl(self) -> str:
        random = self._random
        notes = ("", "", "PRIMARY KEY", "NOT NULL", "LATENESS INTERVAL '1' HOUR", "WATERMARK '5s'", "AS PROCTIME()")
        names = [self._mostly(("a", "b", "ts", "`x y`"), ("select",)) for _ in range(random.randint(1, 4))]
        columns = [f"{name} {random.choice(words.TYPES)} {random.choice(notes)}" for name in names]
        columns += random.choice(((), ("WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",), ("PRIMARY KEY (a)",)))
        what = self._mostly(("SOURCE", "TABLE", "STREAM"), ("TEMPORARY TABLE", "EXTERNAL TABLE"))
        connector = random.choice(("", "", f"FROM {random.choice(words.CONNECTORS)} ({self._options()})"))
        options = f" WITH ({self._options()})" if random.random() < 0.4 else ""
        return f"CREATE {what} made ({', '.join(columns)}) {connector}{options}"

    def _sink(self) -> str:
        random = self._random
        target = f"INTO {random.choice(words.CONNECTORS)} ({self._options()})"
        source = random.choice((f"FROM {self._relation()}", f"AS {self.query(1)}"))
        return f"CREATE SINK made {source} {target} {random.choice(('', 'FORMAT JSON', 'FORMAT UPSERT ENCODE AVRO'))}"

    def _command(self) -> str:
        text = self._random.choice(words.COMMANDS)
        makers = {
            "{relation}": self._relation,
            "{word}": lambda: self._random.choice(("id", "name", "made", "x", "views", "SOURCES", "`q`", "'s'")),
            "{column}": lambda: f"{self._relation()}.{self._column('bids')}",
            "{literal}": lambda: self._literal(),
            "{duration}": self._duration,
            "{expression}": lambda: self.expression(words.COLUMNS["users"], 1),
            "{query}": lambda: self.query(1),
        }
        for place, make in makers.items():
            while place in text:
                text = text.replace(place, make(), 1)
        return text

    def _literal(self) -> str:
        return self._mostly(words.LITERALS, words.ODD_LITERALS)

    def _duration(self) -> str:
        return self._mostly(words.DURATIONS, words.ODD_DURATIONS)

    def _mostly(self, usual: Sequence[str], odd: Sequence[str]) -> str:
        return self._random.choice(odd if self._random.random() < 0.05 else usual)

    def _options(self) -> str:
        return ", ".join(self._random.choice(words.OPTIONS) for _ in range(self._random.randint(0, 3)))

    def _relation(self) -> str:
        return self._random.choice(tuple(words.COLUMNS))

    def _column(self, relation: str) -> str:
        return self._random.choice(words.COLUMNS[relation])

    def _changed(self, text: str) -> str:
        """The text with one token dropped, doubled, swapped, replaced or inserted, or cut short."""
        random, tokens = self._random, TOKEN.findall(text)
        if len(tokens) < 3:
            return text + random.choice(words.NOISE)
        at, other = random.randrange(len(tokens)), random.randrange(len(tokens))
        match random.randrange(7):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[other])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = random.choice(words.NOISE)
            case 4:
                tokens.insert(at, f" {random.choice(words.NOISE)} ")
            case 5:
                tokens[at] = self._literal()
            case _:
                tokens = tokens[: at + 1]
        return "".join(tokens)

    def _pick(self, *weighted):  # type: ignore[no-untyped-def]
        weights, makers = zip(*weighted, strict=True)
        return self._random.choices(makers, weights)[0]()
