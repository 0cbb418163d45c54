"""A pipeline of a few rows, run once, so that its JVM loads the classes that most pipelines need."""

from __future__ import annotations

import tempfile
from pathlib import Path

import tidegate
from tidegate.spark.session import connect

STATEMENTS = """
CREATE SOURCE sales (shop INT, amount INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
CREATE TABLE shops (id INT PRIMARY KEY, name STRING);
CREATE MATERIALIZED VIEW totals AS SELECT shop, SUM(amount) AS total FROM sales GROUP BY shop;
CREATE MATERIALIZED VIEW named AS SELECT name, total FROM totals JOIN shops ON shops.id = totals.shop;
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = connect("local[2]", {}, Path(folder) / "spark.log")
        with tidegate.connect(Path(folder) / "db", spark=spark) as db:
            db.sql(STATEMENTS)
            for number in range(2):
                db.insert("shops", [(number, f"shop {number}")])
                db.insert("sales", [(number, 5, f"2024-01-01 00:00:0{number}")])
                db.step()
            print(db.query("SELECT * FROM named").rows())
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    main()
