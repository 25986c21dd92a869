"""Reads the body of a request as one Kubernetes object, in JSON or YAML, within limits."""

import asyncio
from typing import Any, Final

import msgspec
import yaml
from fastapi import HTTPException, Request

from koordpy.api.scheme import MALFORMED

MAX_BODY: Final = 1 << 20
"""Bytes of a body."""

MAX_YAML: Final = 64 << 10
"""Bytes of a body in YAML, which is slow to read."""

_MOST_VALUES: Final = 100_000
"""The most values in a document; YAML aliases can expand few bytes to many."""

_DEEPEST: Final = 100
"""The deepest nesting of a document in YAML."""


async def read_object(request: Request) -> dict[str, Any]:
    """Return the object in the body. Raises HTTPException 400 if it is not one, 413 if it is too large."""
    return await _document(await _body(request), request.headers.get("content-type", ""))


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"the body is larger than {MAX_BODY} bytes")
    return bytes(body)


async def _document(body: bytes, content_type: str) -> dict[str, Any]:
    if "json" in content_type or body.lstrip()[:1] == b"{":
        try:
            found = msgspec.json.decode(body)
        except MALFORMED as error:
            raise HTTPException(400, f"the body is not JSON: {error}") from None
    else:
        if len(body) > MAX_YAML:
            raise HTTPException(413, f"YAML of more than {MAX_YAML} bytes: send JSON")
        try:
            found = await asyncio.to_thread(_yaml, body)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise HTTPException(400, f"the body is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        raise HTTPException(400, f"got {str(found)[:60]!r}, expected one Kubernetes object with a kind")
    if not isinstance(found.get("metadata") or {}, dict):
        raise HTTPException(400, f"metadata: got {str(found['metadata'])[:60]!r}, expected an object")
    return found


def _yaml(body: bytes) -> Any:
    """Read one YAML document, limited to JSON's types. Raises YAMLError, ValueError."""
    _check_depth(body)
    found = yaml.load(body, _LOADER)
    pending, seen = [found], 0
    while pending:
        value = pending.pop()
        seen += 1
        if seen > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES} values")
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise ValueError("it has a key that is no string")
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif not (value is None or isinstance(value, str | int | float)):
            raise ValueError(f"it has a {type(value).__name__}, which JSON does not have")
    return found


def _check_depth(body: bytes) -> None:
    """Raise ValueError for too deep nesting: the loader recurses in C, and would overflow its stack."""
    depth = 0
    for event in yaml.parse(body, _LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise ValueError(f"it nests more than {_DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _LOADER(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads times as strings, as Kubernetes does."""


_LOADER.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _LOADER.yaml_implicit_resolvers.items()
}
