"""The parent of Spark's Python workers: PySpark's own, with our modules imported before it forks, so that a worker is
ready at once (an import of them all takes half a second, and every query start needs several workers).

After every task a worker collects garbage, all of it, which was two thirds of what workers did in steps of few rows.
So what was imported is frozen first, and they collect what is young; the rest is collected when Python thinks it is
time."""

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import pyspark.daemon
import pyspark.sql.streaming.python_streaming_source_runner
import pyspark.sql.worker.lookup_data_sources
import pyspark.worker

import tidegate.spark.feed
import tidegate.spark.level
import tidegate.spark.lowering  # noqa: F401
from tidegate.spark.compat import use_young_collector

if __name__ == "__main__":
    use_young_collector()
    pyspark.daemon.manager()
