"""AdmissionReviews, encoded and decoded as by kube-apiserver."""

from typing import Any

import msgspec

from ..attributes import Attributes
from ..errors import ApiError

Document = dict[str, Any]

_USER = {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}


class CallFailed(Exception):
    """A webhook did not answer correctly; the failure policy decides what follows."""


class Status(msgspec.Struct):
    """Why a webhook does not allow a change."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


class Answer(msgspec.Struct, rename="camel"):
    """The response in a review."""

    uid: str = ""
    allowed: bool = False
    status: Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: Answer | None = None


_read_review = msgspec.json.Decoder(_Review).decode


def request_of(attrs: Attributes, uid: str, new: Document | None, old: Document | None) -> Document:
    """Return the request of a review about a change."""
    served = attrs.served
    group, version, kind = attrs.object_kind
    kinds = {"group": group, "version": version, "kind": kind}
    resource = {"group": served.group, "version": served.version, "resource": served.plural}
    request: Document = {
        "uid": uid,
        "kind": kinds,
        "resource": resource,
        "requestKind": kinds,
        "requestResource": resource,
        "operation": attrs.operation,
        "userInfo": _USER,
        "object": object_of(attrs, new),
        "oldObject": object_of(attrs, old),
        "dryRun": attrs.dry_run,
        "options": attrs.options or None,
    }
    if attrs.subresource:
        request["subResource"] = request["requestSubResource"] = attrs.subresource
    if attrs.name:
        request["name"] = attrs.name
    namespace = attrs.name if served.kind == "Namespace" and not served.group else attrs.namespace
    if namespace:
        request["namespace"] = namespace
    return request


def object_of(attrs: Attributes, document: Document | None) -> Document | None:
    """Return a document as webhooks see it: with its kind, without storage details."""
    if document is None:
        return None
    group, version, kind = attrs.object_kind
    api_version = f"{group}/{version}" if group else version
    revealed = document if attrs.kind else attrs.served.strategy.reveal(attrs.served, document)
    return {"kind": kind, "apiVersion": api_version, **revealed}


def answer_in(body: bytes, uid: str, review_version: str) -> Answer:
    """Decode a webhook's answer to the review `uid`. Raises CallFailed if it is invalid."""
    version = f"admission.k8s.io/{review_version}"
    try:
        found = _read_review(body)
    except msgspec.MsgspecError as error:
        raise CallFailed(f"received invalid webhook response: {error}") from None
    if (found.kind, found.api_version) != ("AdmissionReview", version):
        raise CallFailed(
            f"received invalid webhook response: expected webhook response of {version}, "
            f"Kind=AdmissionReview, got {found.api_version}, Kind={found.kind}"
        )
    answer = found.response
    if answer is None:
        raise CallFailed("received invalid webhook response: webhook response was absent")
    if answer.uid != uid:
        raise CallFailed(
            f'received invalid webhook response: expected response.uid="{uid}", got "{answer.uid}"'
        )
    if answer.patch and review_version == "v1" and answer.patch_type != "JSONPatch":
        raise CallFailed(
            f'received invalid webhook response: unexpected patchType "{answer.patch_type or ""}", '
            'expected "JSONPatch"'
        )
    return answer


def quoted(name: str) -> str:
    """Return a webhook's name as shown in messages."""
    return f'"{name}"'


def denied(name: str, status: Status) -> ApiError:
    """Return the error that a client gets if a webhook denies a change."""
    told = f"admission webhook {quoted(name)} denied the request"
    if status.message:
        told = f"{told}: {status.message}"
    elif status.reason:
        told = f"{told}: {status.reason}"
    else:
        told = f"{told} without explanation"
    code = status.code if status.code >= 400 else 400
    error = ApiError(code, status.reason, told)
    if status.details:
        error.status["details"] = status.details
    return error
