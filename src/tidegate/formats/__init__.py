"""How rows are written down in records, apart from what carries the records: one file per format.

An *encoding* (`json.py`, `avro.py`, `csv.py`, `raw.py`) says how one row becomes bytes; an *envelope* (`plain.py`,
`upsert.py`, `debezium.py`, `ops.py`) says what a record means: a row, a row that replaces another or a tombstone, a
change with before and after, a change with its op code. `names` finds both by the name that users write.
"""
