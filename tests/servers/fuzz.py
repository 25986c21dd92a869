"""Hostile bodies: valid ones with one thing wrong in them, and arbitrary bytes."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

HOSTILE: Sequence[Any] = (
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    2**70,
    1.5,
    1e308,
    "",
    " ",
    "\x00",
    "\u2028é漢🙂",
    "../../nodes/n0",
    "a/b?c=d#e",
    "%2e%2e%2f",
    "'; DROP TABLE pods; --",
    "${jndi:ldap://x}",
    "1e400",
    "1Ki1",
    "-5",
    "0x10",
    "9" * 400,
    "x" * 70_000,
    "2026-13-45T99:99:99Z",
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": ""},
    {"a": None},
    {"metadata": None},
    ["n0", "n0", "n0"],
    list(range(50)),
)

RUBBISH: Sequence[bytes] = (
    b"",
    b" ",
    b"null",
    b"true",
    b"0",
    b'""',
    b"[]",
    b"{}",
    b"{",
    b"}",
    b'{"',
    b"\xef\xbb\xbf{}",
    b"\xff\xfe\x00",
    b"\x00" * 100,
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 5_000 + b"]" * 5_000,
    b'{"Pod":' * 3_000 + b"1" + b"}" * 3_000,
    b'{"Pod":{"metadata":' + b"[" * 2_000 + b"]" * 2_000 + b"}}",
    b'{"Pod":"\xc3\x28"}',
    b'{"Pod":"\\ud800"}',
    b'{"Pod":{"metadata":{"uid":"\\ud800\\udc00\\udfff"}}}',
    b"1" * 10_000,
    b"-",
    b"1e999999",
    b'{"a":1}{"a":2}',
    b"<xml/>",
    b"NaN",
    b"{'Pod': 1}",
)


def bodies(rng: random.Random, valid: Sequence[Any], count: int) -> Iterator[bytes]:
    """Yield all rubbish, then `count` bodies made from valid documents."""
    yield from RUBBISH
    for _ in range(count):
        document = rng.choice(valid)
        kind = rng.random()
        if kind < 0.7:
            for _ in range(rng.choice((1, 1, 1, 2, 5))):
                document = _changed(rng, document)
            yield json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
        else:
            yield _damaged(rng, json.dumps(document).encode())


def _changed(rng: random.Random, value: Any, *, with_raw: bool = False) -> Any:
    """Return a document with one place in it changed; with `with_raw` perhaps into a mark for `RAW`."""
    if isinstance(value, dict) and value and rng.random() < 0.93:
        key = rng.choice(list(value))
        changed = dict(value)
        how = rng.random()
        if how < 0.05:
            del changed[key]
        elif how < 0.1:
            changed[key.swapcase()] = changed.pop(key)
        elif how < 0.13:
            changed[rng.choice(("", "\x00", "x" * 1000, "kind"))] = rng.choice(HOSTILE)
        else:
            changed[key] = _changed(rng, changed[key], with_raw=with_raw)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        if rng.random() < 0.1:
            return [*value, *value[at:]]
        return [*value[:at], _changed(rng, value[at], with_raw=with_raw), *value[at + 1 :]]
    if with_raw and rng.random() < 0.5:
        return _MARK % rng.randrange(len(RAW))
    return rng.choice(HOSTILE)


def _damaged(rng: random.Random, body: bytes) -> bytes:
    """Return a body with bytes lost, changed, added or doubled."""
    at = rng.randrange(len(body))
    to = min(len(body), at + rng.choice((1, 1, 2, 10, 100)))
    how = rng.randrange(4)
    if how == 0:
        return body[:at]
    if how == 1:
        return body[:at] + body[to:]
    if how == 2:
        return body[:at] + rng.randbytes(to - at) + body[to:]
    return body[:to] + body[at:]


RAW: Sequence[bytes] = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"-0",
    b"-0.0",
    b"1E400",
    b"-1e-400",
    b"0x1F",
    b"007",
    b"+1",
    b".5",
    b"123456789012345678901234567890",
    b"1" * 5_000,
    b"0." + b"3" * 5_000,
    b"1e2147483648",
    b'"\\ud800"',
    b'"\\udfff\\ud800"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b'"\\u0000"',
    b'"\x01"',
    b'"\\x41"',
    b'{"a":1,"a":2}',
    b'{"cpu":"1","cpu":"2","memory":{}}',
    b'{"name":"a","name":null}',
    b"[" * 60 + b"]" * 60,
    b"[" * 990 + b"]" * 990,
    b'{"a":' * 400 + b"{}" + b"}" * 400,
    b'{"metadata":' * 300 + b"null" + b"}" * 300,
    b'{"template":' * 100 + b"1" + b"}" * 100,
    b"[1,]",
    b"{,}",
    b"/**/1",
    b"nul",
    b"True",
)
"""Text in the place of a value: no JSON, or JSON that a decoded document cannot say."""

_MARK = "\ue000raw%d\ue000"


def texts(rng: random.Random, valid: Sequence[Any], count: int) -> Iterator[bytes]:
    """Yield as many bodies made from valid documents: untouched ones, changed ones, and such with `RAW`."""
    for _ in range(count):
        document = rng.choice(valid)
        how = rng.random()
        if how < 0.15:
            yield json.dumps(document).encode()
        elif how < 0.25:
            yield _damaged(rng, json.dumps(document).encode())
        else:
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                document = _changed(rng, document, with_raw=how > 0.6)
            body = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
            yield _with_raw(body)


def _with_raw(body: bytes) -> bytes:
    for number, raw in enumerate(RAW):
        mark = _MARK % number
        for text in (json.dumps(mark).encode(), json.dumps(mark, ensure_ascii=False).encode()):
            if text in body:
                body = body.replace(text, raw)
    return body
