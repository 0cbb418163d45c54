"""Secrets of a pipeline that runs are in no file but that of secrets, and in nothing that it prints, also while its
connections fail; those of file systems are not on the command line of the JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TIDEGATE = Path(sys.executable).parent / "tidegate"
MARKER = "Zq7MARKERx9"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{MARKER}jaas";'
PIPELINE = f"""
CREATE TABLE t (id BIGINT PRIMARY KEY, x STRING);
CREATE MATERIALIZED VIEW v AS SELECT id, x FROM t;
INSERT INTO t VALUES (1, 'a'), (2, 'b');
CREATE SOURCE p FROM POSTGRES (url = 'postgresql://app:{MARKER}source@127.0.0.1:1/shop', tables = 'orders');
CREATE SOURCE h FROM WEBHOOK (port = '0', secret = '{MARKER}hook');
CREATE SINK posted FROM v INTO WEBHOOK (
  url = 'http://user:{MARKER}url@127.0.0.1:1/hook?token={MARKER}query', secret = '{MARKER}hmac',
  "headers.Authorization" = 'Bearer {MARKER}header');
CREATE SINK streamed FROM pgcdc_events INTO REDIS (url = 'redis://:{MARKER}redis@127.0.0.1:1/0', stream = 'x');
CREATE SINK stored FROM v INTO POSTGRES (url = 'postgresql://app:{MARKER}sink@127.0.0.1:1/shop', table = 'out');
CREATE SINK sent FROM v INTO KAFKA (
  topic = 'out', bootstrap_servers = '127.0.0.1:1', format = 'debezium', "kafka.sasl.jaas.config" = '{JAAS}',
  "kafka.security.protocol" = 'SASL_PLAINTEXT', "kafka.sasl.mechanism" = 'PLAIN');
"""
FAILING = ("sink posted", "sink streamed", "sink stored", "sink sent", "no PostgreSQL server answers")


def files_with_secrets(root: Path) -> list[str]:
    """The files below a folder that contain the marker."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [str(path.relative_to(root)) for path in files if MARKER.encode() in path.read_bytes()]


def test_connections_that_fail_reveal_no_secret(tmp_path: Path, kafka_jars: Path) -> None:
    script, output = tmp_path / "pipeline.sql", tmp_path / "output"
    script.write_text(PIPELINE)
    output.mkdir()
    command = [TIDEGATE, "run", script, "--data", output / "data", "--debug"]
    with open(output / "stdout", "wb") as out, open(output / "stderr", "wb") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, env={**os.environ, "TIDEGATE_JARS": str(kafka_jars)}
        )
    try:
        deadline = time.monotonic() + 300
        while not all(each in (output / "stderr").read_text() for each in FAILING):
            assert process.poll() is None and time.monotonic() < deadline, (output / "stderr").read_text()
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert files_with_secrets(output) == ["data/secrets.json"]


CREDENTIALS = f"""
import subprocess, sys
import tidegate
with tidegate.connect(sys.argv[1], master="local[1]", config={{
    "spark.hadoop.fs.s3a.secret.key": "{MARKER}s3",
    "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net": "{MARKER}azure",
}}) as db:
    db.sql("CREATE TABLE t (id BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    db.step()
    print(subprocess.run(["ps", "-A", "-ww", "-o", "args"], capture_output=True, text=True, check=True).stdout)
    from pyspark.sql import SparkSession
    hadoop = SparkSession.getActiveSession().sparkContext._jsc.hadoopConfiguration()
    known = [hadoop.get("fs.s3a.secret.key"), hadoop.get("fs.azure.account.key.shop.dfs.core.windows.net")]
    assert known == ["{MARKER}s3", "{MARKER}azure"], "they are not set"
"""


@pytest.mark.slow
def test_credentials_of_file_systems_are_not_in_the_list_of_processes(tmp_path: Path) -> None:
    script, output = tmp_path / "script.py", tmp_path / "output"
    script.write_text(CREDENTIALS)
    output.mkdir()
    done = subprocess.run(
        [sys.executable, script, output / "data"], capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stderr
    assert "spark-submit" in done.stdout or "SparkSubmit" in done.stdout
    assert MARKER not in done.stdout + done.stderr
    assert files_with_secrets(output) == []
