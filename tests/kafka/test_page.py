"""The statements of docs/kafka.md, run against a broker."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tests.kafka.helpers import produce_json, rows
from tests.servers import Broker

PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"
TRADE = {"symbol": "AAPL", "price": 10.5, "volume": 4, "ts": "2024-05-01T12:00:00Z"}


def test_the_statements_of_the_page_run(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    blocks = re.findall(r"^```sql at a broker\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    for topic in ("trades", "quotes", "instruments", "sector-totals"):
        broker.create_topic(topic)
    produce_json(broker, "trades", TRADE)
    produce_json(broker, "instruments", {"symbol": "AAPL", "sector": "tech", "lot_size": 100}, key="symbol")
    with tidegate.connect(tmp_path / "db", spark=spark, clock="virtual") as db:
        for block in blocks:
            db.sql(block.replace("localhost:9092", broker.address))
        db.step()
        assert [tuple(map(str, row)) for row in rows(db, "SELECT * FROM per_sector")] == [("tech", "1", "42.00")]
    assert [record.value for record in broker.read_committed("sector-totals")] == [
        b'{"sector":"tech","trades":1,"turnover":"42.00"}'
    ]
