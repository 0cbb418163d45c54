"""A pipeline from PostgreSQL to PostgreSQL, to be killed: `cdc_pipeline.py FOLDER SOURCE-URL SINK-URL FILE`.

Says `reading` before the table is read, `running` when it is ready, and runs until it is killed."""

from __future__ import annotations

import sys

import tidegate

DEFINITIONS = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING, amount BIGINT)
  FROM POSTGRES (url = '{url}', table = 'orders');
CREATE SOURCE changes FROM POSTGRES (url = '{url}', tables = 'orders');
CREATE MATERIALIZED VIEW totals AS SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region;
CREATE MATERIALIZED VIEW counts AS SELECT operation, COUNT(*) AS n FROM pgcdc_events GROUP BY operation;
CREATE SINK copied FROM orders INTO POSTGRES (url = '{sink}', table = 'orders_copy');
CREATE SINK summed FROM totals INTO POSTGRES (url = '{sink}', table = 'totals_copy');
CREATE SINK written FROM pgcdc_events INTO FILE (path = '{file}', channels = 'pgcdc:orders');
"""


def main() -> None:
    folder, url, sink, file = sys.argv[1:]
    db = tidegate.connect(folder, master="local[2]")
    db.run_script(DEFINITIONS.format(url=url, sink=sink, file=file))
    print("reading", flush=True)
    db.start()
    print("running", flush=True)
    db.wait()


if __name__ == "__main__":
    main()
