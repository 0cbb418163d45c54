"""A connection to Redis that applies steps in parts, each once.

A part and the record that it was applied are written by one script, so Redis has both or neither. The record is a hash:
`step` is the last complete step; `begun` is a step of which `parts` were applied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tidegate.connectors.redis.options import Server, WriteOptions
from tidegate.errors import Error, make

Command = tuple[str, ...]
"""The arguments of a command after its name and key."""

ANSWER_SECONDS = 30.0
CONNECT_SECONDS = 5.0

_ONCE = """
local step, part, whole = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local note = redis.call('HMGET', KEYS[1], 'step', 'begun', 'parts')
if note[1] and tonumber(note[1]) >= step then return 'applied' end
local applied = (note[2] and tonumber(note[2]) == step) and tonumber(note[3]) or 0
if part < applied then return 'applied' end
if part > applied then return 'lost' end
"""
_NOTED = """
if whole then
  redis.call('HDEL', KEYS[1], 'begun', 'parts')
  redis.call('HSET', KEYS[1], 'step', ARGV[1])
else
  redis.call('HSET', KEYS[1], 'begun', ARGV[1], 'parts', part + 1)
end
return 'done'
"""
TO_STREAM = (
    _ONCE
    + """
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'none' and kind ~= 'stream' then return kind end
for _, fields in ipairs(cjson.decode(ARGV[4])) do
  if ARGV[5] == '' then
    redis.call('XADD', KEYS[2], '*', unpack(fields))
  else
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', unpack(fields))
  end
end
"""
    + _NOTED
)
TO_KEYS = (
    _ONCE
    + """
for _, command in ipairs(cjson.decode(ARGV[4])) do
  redis.call(command[2] and 'SET' or 'DEL', unpack(command))
end
"""
    + _NOTED
)


class AwayError(OSError):
    """Redis could not apply a step now; the step is retried."""


class Connection:
    """A client, and the key of the owner's record."""

    def __init__(self, options: WriteOptions, owner: str) -> None:
        self._redis, self._options, self._server = library(), options, options.server
        self._stream, self._record = options.stream, f"tidegate:{owner}"
        self._client = _client(self._redis, self._server)
        self._script = self._client.register_script(TO_STREAM if self._stream else TO_KEYS)

    def last(self) -> int | None:
        """Read the last complete step."""
        step = self._ask(lambda: self._client.hget(self._record, "step"))
        return None if step is None else int(step)

    def check(self) -> None:
        """Reject a key that is not a stream."""
        if self._stream:
            kind = self._ask(lambda: self._client.type(self._stream))
            if kind not in ("none", "stream"):
                raise self._no_stream(kind)

    def apply(self, step: int, part: int, is_last: bool, commands: Sequence[Command]) -> None:
        """Apply a part of a step, unless it was applied already. `is_last`: it is the last part."""
        encoded = json.dumps(commands, ensure_ascii=False)
        arguments = [str(step), str(part), "1" if is_last else "0", encoded, str(self._options.max_length or "")]
        names = [self._record, self._stream] if self._stream else [self._record]
        answer = self._ask(lambda: self._script(keys=names, args=arguments))
        if answer == "lost":
            raise AwayError(f"Redis at {self._server.place} has lost parts of step {step}, which are written again")
        if answer not in ("done", "applied"):
            raise self._no_stream(answer)

    def close(self) -> None:
        self._client.close()

    def _ask(self, request: Callable[[], Any]) -> Any:
        try:
            return request()
        except self._redis.RedisError as failure:
            raise self._failed(failure) from None

    def _failed(self, failure: Any) -> Exception:
        reason, place = _without_password(str(failure), self._server), self._server.place
        problems = self._redis.exceptions
        if isinstance(failure, problems.AuthenticationError) or reason.startswith("NOAUTH"):
            return make(
                "PIPELINE_FAILED",
                message=f"Redis at {place} rejected the user or the password",
                hint="check user and password",
            )
        if isinstance(failure, problems.NoPermissionError):
            return self._forbidden(reason)
        if isinstance(failure, problems.ConnectionError | problems.TimeoutError):
            return AwayError(f"no Redis server answers at {place}: {reason}")
        if isinstance(failure, problems.ReadOnlyError | problems.OutOfMemoryError) or reason.startswith(_PASSING):
            return AwayError(f"Redis at {place} takes nothing now: {reason}")
        return make(
            "PIPELINE_FAILED",
            message=f"Redis at {place} cannot do what the sink needs: {reason}",
            hint="it needs Redis 5 or newer, or a server that speaks like one; not a cluster",
        )

    def _forbidden(self, reason: str) -> Error:
        pattern = self._stream or f"{self._options.prefix}*"
        return make(
            "PIPELINE_FAILED",
            message=f"the user has too few rights in Redis at {self._server.place}: {reason}",
            hint=f"ACL SETUSER {self._server.user or 'default'} ~{pattern} ~tidegate:* +@read +@write +@scripting"
            " +@connection",
        )

    def _no_stream(self, kind: str) -> Error:
        return make(
            "INVALID_OPTION",
            message=f"key {self._stream} in Redis at {self._server.place} is a {kind}, not a stream",
            hint="choose another stream, or remove the key",
        )


_PASSING = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "TRYAGAIN", "MISCONF", "NOREPLICAS", "OOM", "READONLY")


def library() -> Any:
    """Import redis-py; an error says how to install it."""
    try:
        import redis
    except ImportError:
        raise make(
            "CONNECTOR_JARS", name="REDIS", jars="the Python package redis", hint="pip install 'tidegate[redis]'"
        ) from None
    return redis


def _client(redis: Any, server: Server) -> Any:
    """Create a client without retries: the runtime retries a sink as a whole."""
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis(
        host=server.host,
        port=server.port,
        db=server.number,
        username=server.user,
        password=server.password,
        ssl=server.tls,
        decode_responses=True,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
        client_name="tidegate",
    )


def _without_password(text: str, server: Server) -> str:
    return text.replace(server.password, "***") if server.password else text
