"""Random pipelines of windows, sessions, watermarks, EMIT and interval joins, against a simulator that was written from
docs/ alone and shares nothing with the engine: lists, dicts and loops, everything computed again in every step."""
