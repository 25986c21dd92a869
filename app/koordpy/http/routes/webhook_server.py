"""What the webhook server has besides the webhooks: `/healthz`, `/convert` and `/elasticQuota`.

Source: Koordinator, `pkg/webhook/server.go`, `api_debug_server.go`; controller-runtime,
`pkg/webhook/conversion`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import APIRouter, HTTPException
from fastapi.responses import PlainTextResponse

from koordpy.admission.review import MAX_BODY
from koordpy.api.scheme import MALFORMED
from koordpy.cluster.quota.topology import QuotaTopology
from koordpy.http.server.direct import Direct, Gone, Headers, Reply


class ConversionRequest(msgspec.Struct, rename="camel"):
    """Objects of a custom resource, and the version to convert them to."""

    uid: str = ""
    desired_api_version: str = msgspec.field(default="", name="desiredAPIVersion")
    objects: list[dict[str, Any]] | None = None


class ConversionReview(msgspec.Struct, rename="camel"):
    """The ConversionReview of apiextensions.k8s.io."""

    kind: str = "ConversionReview"
    api_version: str = "apiextensions.k8s.io/v1"
    request: ConversionRequest | None = None


_DECODER = msgspec.json.Decoder(ConversionReview)


def convert(body: bytes) -> bytes | None:
    """Return the response to a ConversionReview; None for a body that is not one.

    koordpy's custom resources have one version each, so nothing can be converted: a review with objects fails
    and names the first one.
    """
    try:
        review = _DECODER.decode(body)
    except MALFORMED:
        return None
    request = review.request
    if request is None:
        return None
    result = {"status": "Success"}
    for found in (request.objects or [])[:1]:
        what = f"kind {found.get('kind')!s:.200} of version {found.get('apiVersion')!s:.200}"
        message = f"no conversion of {what} to {request.desired_api_version:.200} is registered"
        result = {"status": "Failure", "message": message}
    response = {"uid": request.uid, "convertedObjects": [], "result": result}
    return msgspec.json.encode({"kind": review.kind, "apiVersion": review.api_version, "response": response})


class Conversion(Direct):
    """The conversion webhook, at `/convert`."""

    max_body = MAX_BODY

    def respond(self, headers: Headers, body: bytes, gone: Gone) -> Reply:
        """Respond to a ConversionReview."""
        answer = convert(body)
        if answer is None:
            return _problem(400, "expected a ConversionReview with a request")
        return Reply(200, answer)

    def not_allowed(self, method: str) -> Reply:
        """Reject another method."""
        return _problem(405, f"/convert: got {method}, expected POST")

    def too_large(self) -> Reply:
        """Reject a body that is too large."""
        return _problem(413, f"a ConversionReview may have {MAX_BODY} bytes")


def _problem(status: int, message: str) -> Reply:
    return Reply(status, msgspec.json.encode({"message": message}))


def router(quotas: Callable[[], QuotaTopology | None]) -> APIRouter:
    """Return the routes. `/healthz` succeeds as long as the server answers, as in Koordinator."""
    routes = APIRouter()

    @routes.get("/healthz", include_in_schema=False)
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @routes.get("/elasticQuota")
    async def elastic_quota() -> dict[str, Any]:
        topology = quotas()
        if topology is None:
            raise HTTPException(404, "quotas are not followed: their validating webhook is not served")
        return topology.document()

    return routes
