"""The forms of objects in responses: JSON, YAML, metadata only, or a table."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import yaml

from koordpy.lib.bounded_cache import cached

from ..attributes import Attributes
from ..catalog import Served
from ..errors import not_acceptable
from ..wire import Request, Response
from . import tables

Document = dict[str, Any]

_META = "meta.k8s.io/v1"
_ACCEPTED = ("application/json", "application/yaml")


@dataclass(frozen=True, slots=True)
class Form:
    """What a client accepts: `shape` is `object`, `table` or `metadata`; `include`: the contents of rows."""

    shape: str = "object"
    yaml: bool = False
    include: str = "Metadata"

    @property
    def content_type(self) -> str:
        """The media type of the answer."""
        base = "application/yaml" if self.yaml else "application/json"
        if self.shape == "table":
            return f"{base};as=Table;g=meta.k8s.io;v=v1"
        return base


@cached("negotiated_forms", 256 << 10)
def _negotiate(header: tuple[str, str]) -> Form | None:
    accept, include = header
    for part in accept.split(","):
        media, *parameters = [item.strip() for item in part.split(";")]
        values = dict(item.partition("=")[::2] for item in parameters if "=" in item)
        if media not in ("application/json", "application/yaml", "*/*", "application/*"):
            continue
        is_yaml = media == "application/yaml"
        as_ = values.get("as", "")
        if not as_:
            return Form("object", is_yaml)
        if values.get("g") == "meta.k8s.io" and values.get("v") == "v1":
            if as_ == "Table":
                return Form("table", is_yaml, include)
            if as_ in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return Form("metadata", is_yaml)
    return None


def form_of(request: Request) -> Form:
    """Return the form that a request accepts; raise ApiError (406) if none is known."""
    accept = request.header(b"accept")
    include = request.query.get("includeObject", "Metadata") if "as=Table" in accept else "Metadata"
    form = _negotiate((accept, include)) if accept else Form()
    if form is None:
        raise not_acceptable(_ACCEPTED)
    return form


def present(form: Form, served: Served, raw: bytes, now: Any) -> bytes:
    """Return one stored object in a form, as JSON."""
    whole = served.whole(raw)
    if form.shape == "object":
        return whole
    document = msgspec.json.decode(whole)
    if form.shape == "metadata":
        return msgspec.json.encode(partial(document))
    return msgspec.json.encode(tables.table(served, [document], now, form.include))


def partial(document: Document) -> Document:
    """Return an object's metadata as an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": document.get("metadata", {})}


_LONGEST_YAML = 64 << 10


def respond(
    form: Form, body: bytes, status: int = 200, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    """Return the answer with a body that is JSON so far; a long one stays so: YAML is slow to write."""
    if form.yaml and len(body) > _LONGEST_YAML:
        return Response(body, status, "application/json", headers)
    if form.yaml:
        body = yaml.safe_dump(msgspec.json.decode(body), sort_keys=False).encode()
    return Response(body, status, form.content_type, headers)


def list_body(form: Form, served: Served, raws: list[bytes], list_meta: Document, now: Any) -> bytes:
    """Return a list of stored objects in a form, as JSON."""
    metadata = msgspec.json.encode(list_meta)
    if form.shape == "object":
        items = served.strategy.present_items(served, raws)
        kind = msgspec.json.encode(served.list_kind)
        version = msgspec.json.encode(served.api_version)
        return b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[%b]}' % (
            kind,
            version,
            metadata,
            b",".join(items),
        )
    documents = [msgspec.json.decode(served.whole(raw)) for raw in raws]
    if form.shape == "metadata":
        found: Document = {"kind": "PartialObjectMetadataList", "apiVersion": _META, "metadata": list_meta}
        return msgspec.json.encode(found | {"items": [partial(document) for document in documents]})
    table = tables.table(served, documents, now, form.include)
    table["metadata"] = list_meta
    return msgspec.json.encode(table)


def answer(form: Form, attrs: Attributes, raw: bytes, now: datetime, status: int) -> Response:
    """Answer a write with an object, in its stored form, and warnings."""
    return respond(form, present(form, attrs.served, raw, now), status, warnings(attrs.warnings))


def warnings(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the headers of an answer with these warnings."""
    return tuple(("Warning", _warning(text)) for text in dict.fromkeys(texts) if text)


def _warning(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    return f'299 - "{quoted}"'
