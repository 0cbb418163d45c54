"""What random statements are made of: relations, and names, literals and clauses in the spellings of many systems."""

from __future__ import annotations

import re

RELATIONS = """
CREATE SOURCE bids (
  item STRING, price BIGINT, qty INT, ts TIMESTAMP, addr STRUCT<city: STRING, zip: INT>, tags ARRAY<STRING>,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
);
CREATE SOURCE asks (
  item STRING, price DECIMAL(10, 2), at TIMESTAMP LATENESS INTERVAL '1' MINUTE, note MAP<STRING, INT>
);
CREATE TABLE users (id INT PRIMARY KEY, name STRING, region STRING, born DATE);
CREATE TABLE moves (a INT, b STRING, d DOUBLE, flag BOOLEAN, raw BINARY);
CREATE TABLE clicks (a INT, b STRING) WITH ('append_only' = 'true');
CREATE MATERIALIZED VIEW regions AS SELECT region, COUNT(*) AS n FROM users GROUP BY region;
CREATE MATERIALIZED VIEW closed AS SELECT item, window_start, window_end, SUM(price) AS total
  FROM TUMBLE(bids, ts, INTERVAL '1' MINUTE) GROUP BY item, window_start, window_end;
CREATE VIEW plain AS SELECT id, upper(name) AS name FROM users;
"""

COLUMNS = {
    "bids": ("item", "price", "qty", "ts", "addr", "addr.city", "tags", "tags[0]"),
    "asks": ("item", "price", "at", "note", "note['a']"),
    "users": ("id", "name", "region", "born"),
    "moves": ("a", "b", "d", "flag", "raw"),
    "clicks": ("a", "b"),
    "regions": ("region", "n"),
    "closed": ("item", "window_start", "window_end", "total"),
    "plain": ("id", "name"),
    "pgcdc_events": ("channel", "operation", "payload", "payload.row.amount", "created_at"),
    "system.late_rows": ("relation", "row", "step"),
    "nothing": ("x",),
}
TIMED = {"bids": "ts", "asks": "at", "closed": "window_end", "pgcdc_events": "created_at"}


def _words(text: str) -> tuple[str, ...]:
    """The parts of a text that two blanks or a new line separate."""
    return tuple(re.split(r"\s{2,}", text.strip()))


LITERALS = _words("""
    0  1  -1  10  0.1  1e3  'a'  ''  'it''s'  '5 minutes'  NULL  TRUE  false  DATE '2024-01-01'
    TIMESTAMP '2024-01-01 00:00:00'  INTERVAL '1' HOUR  ARRAY(1, 2)  CURRENT_TIMESTAMP
""")
ODD_LITERALS = _words("""
    2147483648  9223372036854775808  1e400  .5  1.  00  1_000  0x1F  NaN  'é😀'  "a"  E'\\n'  $$a$$  X'00'  X'zz'
    N'a'  DATE '2024-13-45'  INTERVAL 5 MINUTES  INTERVAL 'x' DAY  INTERVAL '1-2' YEAR TO MONTH  INTERVAL '5 min'
    ARRAY[1, 2]  [1]  {'a': 1}  MAP('a', 1)  ROW(1, 2)  STRUCT(1 AS x)  (1, 2)  ()  ?  :p  $1  @x  NOW()
    PROCTIME()  CURRENT_DATE  DEFAULT  *
""")
TYPES = _words("""
    INT  BIGINT  STRING  DOUBLE  DECIMAL  DECIMAL(10, 2)  DECIMAL(99)  TIMESTAMP  TIMESTAMP(3)  TIMESTAMP_LTZ(3)
    TIMESTAMP WITH TIME ZONE  VARCHAR  VARCHAR(10)  TEXT  JSON  JSONB  UUID  DATE  ARRAY<INT>  INT[]
    MAP<STRING, INT>  ROW<a INT>  STRUCT<a: INT>  VARIANT  TIME  BYTES  NUMBER  INTERVAL  STRUCT<>  ARRAY<  VOID
    BOOLEAN  FLOAT8  INT UNSIGNED  ENUM('a')
""")
BINARY = _words("""
    +  -  *  /  %  ||  =  <>  <  >=  <=>  AND  OR  LIKE  RLIKE  IS DISTINCT FROM
""")
ODD_BINARY = _words("""
    !=  ==  DIV  ::  ->  ->>  #>  @>  ~  SIMILAR TO  ILIKE  IN  ^  &  |  <<  XOR  BETWEEN  OVERLAPS  COLLATE
    AT TIME ZONE  :=  =>  IS NOT DISTINCT FROM
""")
ELSEWHERE = _words("""
    TO_TIMESTAMP_LTZ  DATE_FORMAT  TIMESTAMP_TRUNC  SPLIT_INDEX  REGEXP_MATCH  LATEST_BY_OFFSET  TOPK
    TUMBLE_START  HOP_END  WINDOWSTART  JSON_VALUE  GENERATE_SERIES  UNNEST  EXPLODE  STRING_AGG  ARRAY_AGG  COUNT
    SUM  AVG  MIN  MAX  COUNT_IF  APPROX_COUNT_DISTINCT  FIRST_VALUE  LAG  ROW_NUMBER  RANK  NTILE
    PERCENTILE_CONT  GROUPING  TUMBLE  SESSION  NO_SUCH  if  EXTRACT
""")
DURATIONS = _words("""
    INTERVAL '1' MINUTE  INTERVAL '10' SECOND  INTERVAL '1' HOUR  INTERVAL '1' DAY
""")
ODD_DURATIONS = _words("""
    INTERVAL 1 HOUR  INTERVAL '0' SECOND  INTERVAL '-1' HOUR  INTERVAL '1' MONTH  '1h30m'  5  INTERVAL '1 minute'
    '5 min'  NULL  INTERVAL 'a' SECOND  10 SECONDS  INTERVAL '1' FORTNIGHT  INTERVAL '0.5' SECOND
    INTERVAL '999999999999' DAY  price  ''
""")
EMITS = _words("""
    EMIT CHANGES  EMIT FINAL  EMIT ON UPDATE  EMIT ON WATERMARK  EMIT AFTER WATERMARK  EMIT ON WINDOW CLOSE
    EMIT EVERY INTERVAL '2' SECOND  EMIT PERIODICALLY '5s'  EMIT SOMETIMES  EMIT  EMIT EVERY  EMIT ON  EMIT STREAM
    EMIT LAST AFTER WATERMARK  ALLOWED LATENESS INTERVAL '1' MINUTE  ALLOW LATENESS '10s'
    ALLOWED LATENESS '1m' EMIT FINAL  LATE DATA TO moves  LATE DATA TO nothing  EMIT CHANGES LIMIT 5
    EVENT TIME BY payload.at  TUMBLING WINDOW 1m  SLIDING WINDOW 5m SLIDE 1m  SESSION WINDOW 30s
    WITH ('emit_final' = 'ts')  WITH ('max_groups' = 'x')  WITH ('emit' = 'batch')  WITH (backfill = true)
""")
OPTIONS = _words("""
    'connector' = 'kafka'  'topic' = 't'  'properties.bootstrap.servers' = '127.0.0.1:1'  format = 'json'
    path = '/nowhere'  'append_only' = 'true'  idle_timeout = '5 s'  max_ahead = 'soon'  rows = 5  rate = -1
    brokers = ''  'password' = 'abc'  url = 'http://127.0.0.1:1'  nonsense = 'x'  'a' 'b'  = 'x'  x
    'scan.startup.mode' = 'latest-offset'  type = append_only  primary_key = 'id'  'primary_key' = 'nope'
""")
CONNECTORS = _words("""
    KAFKA  FILES  DATAGEN  STDOUT  FILE  WEBHOOK  SSE  REDIS  NOTHING  'kafka'
""")
COMMANDS = _words("""
    SHOW TABLES  SHOW {word}  SHOW CREATE VIEW {relation}  DESCRIBE {relation}  DESCRIBE EXTENDED {word}
    EXPLAIN {relation}  EXPLAIN ANALYZE {relation}  EXPLAIN (bound) {query}  EXPLAIN {query}  LIST STREAMS
    SUBSCRIBE {relation}  SUBSCRIBE {relation} FROM STEP {literal}  SET {word} = {literal}  SET dialect = 'x'
    ADVANCE {column} TO {expression}  LATENESS {column} {duration}  REFRESH TABLE {relation}  USE {word}
    INSERT INTO {relation} VALUES ({expression}, {expression})  INSERT INTO {relation} {query}  TRUNCATE {word}
    INSERT INTO {relation} ({word}) VALUES ({literal})  DELETE FROM {relation} WHERE {expression}  BEGIN
    UPDATE {relation} SET {word} = {expression} WHERE {expression}  DROP VIEW {word}  DROP TABLE IF EXISTS {word}
    ALTER TABLE {relation} ADD COLUMN x INT  CREATE INDEX i ON {relation}(x)  CREATE FUNCTION f AS 'x'
    CREATE DATABASE x  EXECUTE STATEMENT SET BEGIN {query}; END  GRANT ALL ON {relation} TO x
    {query} AS OF STEP 0  MERGE INTO {relation} USING users ON true WHEN MATCHED THEN DELETE  WHY {relation}
    COPY {relation} TO 'x'
""")
NOISE = (
    *_words("""
    SELECT  FROM  WHERE  GROUP BY  AS  ON  JOIN  WITH  OVER  (  )  ,  ;  '  "  `  --  /*  */
    /*+ EARLY_FIRE('delay' = '5s') */  /*+ BROADCAST(x) */  .  ..  ::  {  }  [  ]  INTERVAL  WINDOW  EMIT
    LATENESS  CASE  END  NOT  NULL  DISTINCT  ALL  LATERAL  VALUES  TABLE  WATERMARK  FOR  PRIMARY KEY  QUALIFY
    PIVOT  TABLESAMPLE  MATCH_RECOGNIZE  FOR SYSTEM_TIME AS OF  WITHIN
    """),
    *("\x00", "\u200b", "\u00e9", "\U0001f600", "\U0001d4b3", "\\", "\t", "\n", "\r\n"),
    *("1" * 60, "x" * 300, "(" * 60),
)
