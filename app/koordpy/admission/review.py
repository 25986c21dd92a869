"""The AdmissionReview envelope: the bytes of a request in, the bytes of the response out.

The object inside is not decoded here: it stays raw until the chain reads it, so unknown fields survive.
Whatever the bytes are, the response is an AdmissionReview; the HTTP status is always 200.

Source: controller-runtime, `pkg/webhook/admission/http.go`.
"""

import logging
from base64 import b64encode
from typing import Final

import msgspec

from koordpy.api.meta import Struct
from koordpy.api.scheme import MALFORMED, DecodeError, decode

from .chain import Chain, Response, one_line
from .handler import GroupVersionKind, GroupVersionResource, Request

log = logging.getLogger(__name__)

MAX_BODY: Final = 7 * 1024 * 1024
"""Maximum size of an AdmissionReview, in bytes."""

CONTENT_TYPE: Final = "application/json"
V1: Final = "admission.k8s.io/v1"
V1BETA1: Final = "admission.k8s.io/v1beta1"

TOO_LARGE: Final = Response(False, 413, "", f"request entity is too large; limit is {MAX_BODY} bytes")
EMPTY: Final = Response(False, 400, "", "request body is empty")

_NO_RAW: Final = msgspec.Raw()


class AdmissionRequest(Struct):
    """The request inside an AdmissionReview; objects and the user stay raw until they are read."""

    uid: str = ""
    kind: GroupVersionKind = msgspec.field(default_factory=GroupVersionKind)
    resource: GroupVersionResource = msgspec.field(default_factory=GroupVersionResource)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: msgspec.Raw = _NO_RAW
    object: msgspec.Raw = _NO_RAW
    old_object: msgspec.Raw = _NO_RAW
    dry_run: bool | None = None


class AdmissionReview(Struct):
    """The envelope."""

    kind: str = ""
    api_version: str = ""
    request: AdmissionRequest | None = None


_DECODER = msgspec.json.Decoder(AdmissionReview)
_ENCODE = msgspec.json.encode
_PREFIX = {
    version: b'{"kind":"AdmissionReview","apiVersion":"%b","response":{"uid":' % version.encode()
    for version in (V1, V1BETA1)
}


class _Unreadable(Exception):
    """A body has no readable request."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.message)
        self.response = response


def review(chain: Chain, body: bytes, content_type: str = CONTENT_TYPE) -> bytes:
    """Return the response to an AdmissionReview, without waiting (see `Chain.admit`). Never raises."""
    try:
        envelope = _open(body, content_type)
    except _Unreadable as error:
        return refuse(chain, error.response)
    sent = envelope.request or AdmissionRequest()
    return _answer(envelope, sent, chain.admit(_request_of(sent), sent.object))


async def review_waiting(chain: Chain, body: bytes, content_type: str = CONTENT_TYPE) -> bytes:
    """Return the response, waiting for asynchronous handlers. Raises nothing but CancelledError."""
    try:
        envelope = _open(body, content_type)
    except _Unreadable as error:
        return refuse(chain, error.response)
    sent = envelope.request or AdmissionRequest()
    return _answer(envelope, sent, await chain.admit_waiting(_request_of(sent), sent.object))


def refuse(chain: Chain, response: Response) -> bytes:
    """Return the response to a body without a readable request: it has no uid and version."""
    chain.answered.inc()
    log.info("%s: refused with %d: %s", chain.path.path, response.code, one_line(response.message))
    return b'{"response":{"uid":""' + _rest(response)


def _open(body: bytes, content_type: str) -> AdmissionReview:
    """Read the envelope. Raises _Unreadable."""
    if not body:
        raise _Unreadable(EMPTY)
    if len(body) > MAX_BODY:
        raise _Unreadable(TOO_LARGE)
    if content_type != CONTENT_TYPE:
        problem = f"contentType={content_type}, expected {CONTENT_TYPE}"
        raise _Unreadable(Response(False, 400, "", problem))
    try:
        return _read(body)
    except DecodeError as error:
        raise _Unreadable(Response(False, 400, "", str(error))) from None


def _read(body: bytes) -> AdmissionReview:
    """Read the envelope. Raises DecodeError."""
    try:
        envelope = _DECODER.decode(body)
    except msgspec.ValidationError:
        envelope = _read_with_nulls(body)
    except MALFORMED as error:
        raise DecodeError(f"AdmissionReview: not JSON: {error}") from None
    if (envelope.kind or "AdmissionReview") != "AdmissionReview" or envelope.api_version not in (
        "",
        V1,
        V1BETA1,
    ):
        raise DecodeError(
            f"expected kind AdmissionReview of {V1} or {V1BETA1}, got kind {envelope.kind!r} of "
            f"{envelope.api_version!r}"
        )
    return envelope


class _Members(Struct):
    """An envelope whose request may be null or hold nulls."""

    kind: str | None = None
    api_version: str | None = None
    request: dict[str, msgspec.Raw] | None = None


_Members.__name__ = AdmissionReview.__name__  # its name in decoding errors


def _read_with_nulls(body: bytes) -> AdmissionReview:
    """Read an envelope whose absent members are null."""
    members = decode(_Members, body)
    present = {name: bytes(raw) for name, raw in (members.request or {}).items() if bytes(raw) != b"null"}
    text = b",".join(_ENCODE(name) + b":" + raw for name, raw in present.items())
    return AdmissionReview(
        kind=members.kind or "",
        api_version=members.api_version or "",
        request=decode(AdmissionRequest, b"{" + text + b"}"),
    )


def _request_of(sent: AdmissionRequest) -> Request:
    return Request(
        uid=sent.uid,
        operation=sent.operation,
        namespace=sent.namespace,
        name=sent.name,
        kind=sent.kind,
        resource=sent.resource,
        sub_resource=sent.sub_resource,
        dry_run=bool(sent.dry_run),
        raw_old_object=sent.old_object,
        raw_user_info=sent.user_info,
    )


def _answer(envelope: AdmissionReview, sent: AdmissionRequest, response: Response) -> bytes:
    return _PREFIX[envelope.api_version or V1] + _ENCODE(sent.uid) + _rest(response)


def _rest(response: Response) -> bytes:
    """Write the answer after the uid."""
    if response.patch:
        return (
            b',"allowed":true,"status":{"code":200},"patchType":"JSONPatch","patch":"'
            + b64encode(response.patch)
            + b'"}}'
        )
    if response.allowed:
        return b',"allowed":true,"status":{"code":200}}}'
    status: dict[str, str | int] = {"code": response.code, "message": response.message}
    if response.reason:
        status["reason"] = response.reason
    return b',"allowed":false,"status":' + _ENCODE(status) + b"}}"
