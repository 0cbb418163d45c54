"""A stock that follows deliveries and sales, with a subscription to what runs low.

Run it with `python examples/stock.py`.
"""

import tidegate

PIPELINE = """
CREATE TABLE items (id INT PRIMARY KEY, name STRING, minimum INT);
CREATE SOURCE movements (item INT, pieces INT);

CREATE MATERIALIZED VIEW stock AS
  SELECT item, SUM(pieces) AS pieces, COUNT(*) AS movements FROM movements GROUP BY item;

CREATE MATERIALIZED VIEW low AS
  SELECT item, pieces FROM stock WHERE pieces < 10;
"""


def main() -> None:
    with tidegate.connect() as db:
        db.sql(PIPELINE)
        db.insert("items", [(1, "pen", 10), (2, "ink", 5)])
        db.insert("movements", [{"item": 1, "pieces": 40}, {"item": 2, "pieces": 12}])
        db.step()

        for sold in (25, 8, 3):
            with db.batch() as batch:
                batch.insert("movements", [(1, -sold), (2, -1)])
            report = db.step()
            for change in db.subscribe("low", from_step=report.steps.start, timeout=0):
                print(change.step, change.op, change.row)

        db.query("SELECT name, pieces FROM items JOIN stock ON id = item ORDER BY id").show()


if __name__ == "__main__":
    main()
