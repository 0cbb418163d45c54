"""Sources and sinks, one folder per connector, all with the same anatomy.

`options.py` declares the options, `source.py` and `capture.py` read, `sink.py` writes. `contract` defines what a source
and a sink are; `registry` finds connectors by name, those of other packages by entry point.
"""
