"""Reads the body of a request as one Kubernetes object, in JSON or YAML, within limits."""

import asyncio
from typing import Any, Final

from fastapi import HTTPException, Request

from koordpy.lib.text_documents import DocumentError, Limits, read_json, read_yaml

MAX_BODY: Final = 1 << 20
"""Bytes of a body."""

MAX_YAML: Final = 64 << 10
"""Bytes of a body in YAML, which is slow to read."""

_LIMITS: Final = Limits(size=MAX_BODY)


async def read_object(request: Request) -> dict[str, Any]:
    """Return the object in the body. Raises HTTPException 400 if it is not one, 413 if it is too large."""
    return await _document(await _body(request), request.headers.get("content-type", ""))


async def read_text(request: Request) -> str:
    """Return the body as text. Raises HTTPException 400 if it is not UTF-8, 413 beyond the limit of YAML."""
    body = await _body(request)
    if len(body) > MAX_YAML:
        raise HTTPException(413, f"the body is larger than {MAX_YAML} bytes")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the body is not UTF-8: {error}") from None


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
            found = read_json(body, _LIMITS)
        except DocumentError as error:
            raise HTTPException(400, f"the body is not JSON: {error}") from None
    else:
        if len(body) > MAX_YAML:
            raise HTTPException(413, f"YAML of more than {MAX_YAML} bytes: send JSON")
        try:
            found = await asyncio.to_thread(read_yaml, body, _LIMITS)
        except DocumentError as error:
            raise HTTPException(400, f"the body is not YAML: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        raise HTTPException(400, f"got {str(found)[:60]!r}, expected one Kubernetes object with a kind")
    if not isinstance(found.get("metadata") or {}, dict):
        raise HTTPException(400, f"metadata: got {str(found['metadata'])[:60]!r}, expected an object")
    return found
