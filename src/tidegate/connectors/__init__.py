"""How rows come in from elsewhere and how changes leave: one folder per connector, all with the same anatomy.

`options.py` says what a connector can be told, `source.py` reads, `sink.py` writes. `registry` finds them by name.
"""
