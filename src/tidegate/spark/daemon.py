"""The parent of Spark's Python workers: PySpark's own, with our modules imported before it forks, so that a worker is
ready at once (an import of them all takes half a second, and every query start needs several workers).

After every task a worker collects garbage. What was imported is frozen first: going through all of it each time was two
thirds of what the workers did in steps of few rows."""

import gc
import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import pyspark.sql.streaming.python_streaming_source_runner
import pyspark.sql.streaming.transform_with_state_driver_worker
import pyspark.sql.worker.lookup_data_sources
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tidegate.spark.feed
import tidegate.spark.level
import tidegate.spark.lowering  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
