"""Request bodies: JSON, YAML or protobuf, checked against the kind of the URL."""

from typing import Any, Final

import msgspec

from koordpy.api.field_cause import invalid_value, unsupported
from koordpy.lib.text_documents import DocumentError, Limits, read_json, read_yaml

from ..catalog import Served
from ..errors import ApiError, bad_request, invalid, unsupported_media_type
from ..wire import MAX_BODY, Request
from . import protobuf

Document = dict[str, Any]

_JSON = "application/json"
_YAML = ("application/yaml", "application/apply-patch+yaml", "text/yaml")
_TEXTS = (_JSON, "application/yaml")
_ACCEPTED = (*_TEXTS, protobuf.MEDIA_TYPE)
_LIMITS: Final = Limits(size=MAX_BODY, values=25_000)
"""What a request costs grows with the values in it more than with its bytes."""

_LIMITS_OF_DEFINITIONS: Final = Limits(size=MAX_BODY, values=100_000)
"""For CustomResourceDefinitions, whose schemas are long."""


def media_type(request: Request) -> str:
    """The body's media type without parameters."""
    return request.header(b"content-type").partition(";")[0].strip().lower()


def _limits(request: Request) -> Limits:
    return _LIMITS_OF_DEFINITIONS if "/customresourcedefinitions" in request.path else _LIMITS


def load_yaml(request: Request) -> Any:
    """Convert YAML to JSON; raise ApiError (400)."""
    try:
        if request.body.startswith(b"{"):  # kubectl sends JSON under the media types of YAML
            return read_json(request.body, _limits(request))
    except DocumentError:
        pass
    try:
        return read_yaml(request.body, _limits(request))
    except DocumentError as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from None


def load(request: Request, served: Served | None = None) -> Any:
    """Read a body; raise ApiError (400, 415). Objects of a custom resource have no protobuf form."""
    media = media_type(request)
    is_custom = served is not None and served.custom
    if media == protobuf.MEDIA_TYPE and not is_custom:
        return protobuf.load(request.body)
    if media in _YAML:
        return load_yaml(request)
    # The official Python client sends */* or nothing with its JSON, and asks for JSON.
    is_json = media in (_JSON, "*/*") or (not media and _JSON in request.header(b"accept"))
    if not is_json:
        raise unsupported_media_type(_TEXTS if is_custom else _ACCEPTED)
    return load_json(request)


def load_json(request: Request) -> Any:
    """Read JSON; raise ApiError (400)."""
    try:
        return read_json(request.body, _limits(request))
    except DocumentError as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from None


def load_object(request: Request, served: Served | None = None) -> Document:
    """Read a body that must be an object; `served` is the resource if it is one of its objects."""
    document = load(request, served)
    if not isinstance(document, dict):
        raise bad_request("the body of the request must be an object")
    return document


def take_type(served: Served, document: Document, expected: tuple[str, str] | None = None) -> None:
    """Check and remove `kind` and `apiVersion` of a document; raise ApiError (400).

    `expected` is kind and version of a subresource's own objects.
    """
    kind, version = expected or (served.kind, served.api_version)
    given_kind, given_version = document.pop("kind", None), document.pop("apiVersion", None)
    if served.custom and not given_kind:
        raise bad_request(f"Object 'Kind' is missing in '{msgspec.json.encode(document).decode()}'")
    if served.custom and not given_version:
        raise bad_request(f"Object 'apiVersion' is missing in '{msgspec.json.encode(document).decode()}'")
    if given_version and given_version != version:
        raise bad_request(
            f"the API version in the data ({given_version}) does not match "
            f"the expected API version ({version})"
        )
    if given_kind and given_kind != kind:
        raise bad_request(
            f'{given_kind} in version "{version}" cannot be handled as a {kind}: expected kind {kind}'
        )


def report_unknown(request: Request, served: Served, unknown: list[str], is_patch: bool = False) -> list[str]:
    """Return the warnings for unknown fields; raise ApiError if the client requested strict validation."""
    directive = request.query.get("fieldValidation", "") or "Warn"
    if directive not in ("Ignore", "Warn", "Strict"):
        kind = "PatchOptions" if is_patch else "CreateOptions"
        cause = unsupported("fieldValidation", directive, ("", "Ignore", "Warn", "Strict"))
        raise invalid(kind, "meta.k8s.io", "", [cause])
    if not unknown or directive == "Ignore":
        return []
    texts = [f'unknown field "{path}"' for path in unknown]
    if directive == "Warn":
        return texts
    told = f"strict decoding error: {', '.join(texts)}"
    if is_patch:
        patch = request.body.decode("utf-8", "replace")
        raise invalid("", "", "", [invalid_value("patch", patch, told)])
    raise bad_request(
        f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: {told}'
    )


def check_patchable(error: Exception, code: int) -> ApiError:
    """Convert the error of a patch into an ApiError."""
    if code == 400:
        return bad_request(str(error))
    if code == 413:
        return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {error}")
    if code == 415:
        return ApiError(415, "UnsupportedMediaType", str(error))
    if code == 500:
        return ApiError(500, "InternalError", f"Internal error occurred: {error}")
    return ApiError(
        422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
    )
