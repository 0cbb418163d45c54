"""Writes to Kafka and PostgreSQL while faults happen, and knows what it has written."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass, field

import psycopg
from confluent_kafka import KafkaError, Message, Producer

from tests.chaos.definitions import DELAY_MS, ROUND_MS, START_MS, TOPICS
from tests.servers import Broker
from tests.servers.kafka import QUIET
from tests.servers.postgres import Postgres

SYMBOLS = 40
SECTORS, REGIONS = ("tech", "food", "steel"), ("eu", "us", "asia")
FAR_BEHIND_MS = 600_000
DELIVERY_SECONDS = 120


@dataclass(frozen=True)
class Trade:
    """`least` is the version of its symbol that Kafka had acknowledged before the trade was sent."""

    id: int
    symbol: str
    amount: int
    ts: int
    least: int
    late: bool = False


@dataclass(frozen=True)
class Quote:
    id: int
    symbol: str
    ts: int


@dataclass
class Written:
    """All that Kafka and PostgreSQL have been given. What PostgreSQL contains is asked of PostgreSQL."""

    trades: list[Trade] = field(default_factory=list)
    quotes: list[Quote] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    sectors: dict[str, str] = field(default_factory=dict)
    rounds: int = 0

    @property
    def watermark(self) -> int:
        """The watermark of trades and of quotes when all that was written has been read."""
        return START_MS + self.rounds * ROUND_MS - 1 - DELAY_MS


class Load:
    """The rows of one round after the other: `begin`, and `end` when the fault is over."""

    def __init__(self, broker: Broker, postgres: Postgres, database: str, chance: random.Random) -> None:
        self._broker, self._postgres, self._database = broker, postgres, database
        self._chance, self.written = chance, Written()
        self._ended, self._threads = threading.Event(), list[threading.Thread]()
        self._failures: list[BaseException | KafkaError] = []
        settings = {"enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 5}
        timeouts = {"message.timeout.ms": DELIVERY_SECONDS * 1000, "reconnect.backoff.max.ms": 500}
        self._producer = Producer({"bootstrap.servers": broker.address, **settings, **timeouts, **QUIET})

    def prepare(self) -> None:
        """Create topics and tables, with the first version of every symbol and some orders."""
        for topic, partitions in TOPICS.items():
            self._broker.create_topic(topic, partitions)
        for number in range(SYMBOLS):
            self._new_version(f"s{number}")
        self._flush()
        self._postgres.execute(
            self._database,
            "CREATE TABLE orders (id bigint PRIMARY KEY, symbol text, region text, amount bigint);"
            f"INSERT INTO orders SELECT g, 's' || (g % {SYMBOLS}), 'eu', g FROM generate_series(1, 300) g",
        )

    def begin(self) -> None:
        """Write until `end`."""
        self._ended.clear()
        self._threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._stream, self._orders)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Finish the round: a last row in every partition moves the watermarks to its end."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        last = self._round_begins + ROUND_MS - 1
        for partition in range(TOPICS["trades"]):
            self._send_trade("closing", last, partition=partition)
        for partition in range(TOPICS["quotes"]):
            self._send_quote("closing", last, partition=partition)
        self._flush()
        self.written.rounds += 1

    @property
    def _round_begins(self) -> int:
        return START_MS + self.written.rounds * ROUND_MS

    def _guarded(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as problem:
            self._failures.append(problem)

    def _stream(self) -> None:
        self._late_trades()
        while not self._ended.is_set():
            if self._chance.random() < 0.3:
                self._new_version(self._symbol())
                self._flush()
            for _ in range(self._chance.randint(1, 8)):
                self._send_trade(self._symbol(), self._time())
            for _ in range(self._chance.randint(1, 5)):
                self._send_quote(self._symbol(), self._time())
            self._producer.poll(0)
            self._ended.wait(self._chance.uniform(0.05, 0.4))

    def _late_trades(self) -> None:
        """Rows that are late for every operator: the watermark of the round before is far beyond them."""
        if self.written.rounds * ROUND_MS > DELAY_MS:
            for _ in range(self._chance.randint(0, 3)):
                self._send_trade(self._symbol(), self._round_begins - FAR_BEHIND_MS, late=True)

    def _symbol(self) -> str:
        return f"s{self._chance.randrange(SYMBOLS)}"

    def _time(self) -> int:
        return self._round_begins + self._chance.randrange(ROUND_MS - 1)

    def _send_trade(self, symbol: str, ts: int, partition: int | None = None, late: bool = False) -> None:
        least = self.written.versions.get(symbol, 0)
        trade = Trade(len(self.written.trades), symbol, self._chance.randrange(1000), ts, least, late)
        self.written.trades.append(trade)
        row = {"id": trade.id, "symbol": symbol, "amount": trade.amount, "ts": ts}
        self._send("trades", symbol, row, partition)

    def _send_quote(self, symbol: str, ts: int, partition: int | None = None) -> None:
        quote = Quote(len(self.written.quotes), symbol, ts)
        self.written.quotes.append(quote)
        self._send("quotes", symbol, {"id": quote.id, "symbol": symbol, "ts": ts}, partition)

    def _new_version(self, symbol: str) -> None:
        """Sent and acknowledged before the next trade is: `_flush` waits."""
        version, sector = self.written.versions.get(symbol, 0) + 1, self._chance.choice(SECTORS)
        self._send("instruments", symbol, {"symbol": symbol, "version": version, "sector": sector})
        self.written.versions[symbol], self.written.sectors[symbol] = version, sector

    def _send(self, topic: str, key: str, row: dict[str, object], partition: int | None = None) -> None:
        more = {} if partition is None else {"partition": partition}
        self._producer.produce(topic, json.dumps(row), key, on_delivery=self._delivered, **more)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error)

    def _flush(self) -> None:
        left = self._producer.flush(DELIVERY_SECONDS)
        if left or self._failures:
            raise RuntimeError(f"the load could not write: {left} records are left, {self._failures}")

    def _orders(self) -> None:
        while not self._ended.is_set():
            try:
                with self._postgres.connect(self._database) as connection:
                    while not self._ended.is_set():
                        self._transaction(connection)
                        self._ended.wait(self._chance.uniform(0.02, 0.3))
            except psycopg.OperationalError:
                time.sleep(0.2)

    def _transaction(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        with connection.transaction():
            for _ in range(self._chance.randint(1, 5)):
                row, amount = self._chance.randrange(500), self._chance.randrange(1000)
                symbol, region = self._symbol(), self._chance.choice(REGIONS)
                values = f"{row}, '{symbol}', '{region}', {amount}"
                changes = (
                    f"INSERT INTO orders VALUES ({values}) ON CONFLICT DO NOTHING",
                    f"UPDATE orders SET region = '{region}', amount = {amount} WHERE id = {row}",
                    f"UPDATE orders SET symbol = '{symbol}' WHERE id = {row}",
                    f"DELETE FROM orders WHERE id = {row}",
                )
                connection.execute(self._chance.choice(changes))
