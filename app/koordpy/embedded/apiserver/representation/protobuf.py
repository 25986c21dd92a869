"""Protobuf bodies of requests for built-in kinds, as kubectl and other clients in Go send them.

`protobuf_types.txt` has the types (its head explains the notation); they are read on first use. The result is
the JSON document that the client would have sent instead. Answers are never protobuf: clients read JSON too.

Source: Kubernetes, `k8s.io/apimachinery/pkg/runtime/serializer/protobuf` (the envelope), the generated
`Unmarshal` methods of `k8s.io/api` (fields), and the types' own JSON forms (times, quantities, ...).
"""

import base64
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import Any

from koordpy.lib.text_documents import DocumentError, read_json

from ..errors import bad_request

Document = dict[str, Any]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

MAX_FIELDS = 30_000
"""How many fields, items of lists and entries of maps a body may have: it bounds memory and time."""

MAX_DEPTH = 64
"""How deeply messages may be nested; only schemas in CustomResourceDefinitions nest without a limit."""

_MAGIC = b"k8s\0"
_FIELD = re.compile(r"(\d+):([\w$-]+):(\^?)(\[\]|\{\}|)(\*?)([\w.]+)(\??)\Z")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE_TYPES = {"i": _VARINT, "b": _VARINT, "d": _FIXED64}


class _Malformed(Exception):
    """The bytes are not what the type says; the text says why."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    shape: str
    """`[]`, `{}` or nothing."""
    type: str
    """A scalar type, or empty for a message."""
    message: "_Type | None"
    is_inline: bool = False
    is_omitted_empty: bool = False
    entry: "_Type | None" = None
    """The message of an entry, of a map."""

    @property
    def wire_type(self) -> int:
        return _WIRE_TYPES.get(self.type, _BYTES)

    def zero(self) -> Any:
        if self.message is not None:
            return self.message.finished({})
        return {"i": 0, "b": False, "d": 0.0}.get(self.type, "")


@dataclass(slots=True)
class _Type:
    name: str
    fields: dict[int, _Field] = field(default_factory=dict)
    finish: Callable[[Document], Any] | None = None
    """Makes the JSON form of the fields, where it is not an object with them."""

    def finished(self, document: Document) -> Any:
        """Return the JSON form of the fields."""
        return document if self.finish is None else self.finish(document)


def load(body: bytes) -> Document:
    """Return the document of a body, with kind and apiVersion; raise ApiError (400)."""
    if not body.startswith(_MAGIC):
        raise bad_request(
            "the body of the request is not protobuf of Kubernetes: it must start with k8s\\x00"
        )
    try:
        return _load(body[len(_MAGIC) :])
    except _Malformed as error:
        raise bad_request(f"the body of the request is not valid protobuf: {error}") from None


def _load(body: bytes) -> Document:
    reader = _Reader(body)
    envelope = reader.read((0, len(body)), _types()[1], {}, 0)
    encoding, content = envelope.get("contentEncoding"), envelope.get("contentType")
    if encoding or content not in (None, "", MEDIA_TYPE):
        raise _Malformed(
            f"its content has the type {content!r} and the encoding {encoding!r}, not {MEDIA_TYPE}"
        )
    about = envelope.get("typeMeta") or {}
    version, kind = about.get("apiVersion", ""), about.get("kind", "")
    by_kind = _types()[0]
    type_ = by_kind.get((version, kind)) or by_kind.get(("meta.k8s.io/v1", kind))
    if type_ is None:
        raise _Malformed(f"there is no protobuf form of the kind {kind!r} in the version {version!r}")
    raw = envelope.get("raw", b"")
    document = _Reader(raw).read((0, len(raw)), type_, {}, 0)
    return {"kind": kind, "apiVersion": version, **document}


class _Reader:
    """Reads messages from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MAX_FIELDS

    def read(self, span: tuple[int, int], type_: _Type, into: Document, depth: int) -> Document:
        """Add the fields between two offsets to a document, which is returned."""
        at, end = span
        if depth > MAX_DEPTH:
            raise _Malformed(f"messages are nested more than {MAX_DEPTH} levels deep")
        fields = type_.fields
        while at < end:
            tag, at = self._varint(at, end)
            number, wire_type = tag >> 3, tag & 7
            found = fields.get(number)
            if number == 0:
                raise _Malformed(f"a field of {type_.name} has the number 0")
            self._left -= 1
            if self._left < 0:
                raise _Malformed(f"it has more than {MAX_FIELDS} fields")
            value, after = self._value(at, end, wire_type, type_, number)
            if found is not None:
                if wire_type == found.wire_type:
                    self._add(into, found, value, depth)
                elif wire_type == _BYTES and found.shape == "[]":
                    self._add_packed(into, found, value)
                else:
                    raise _Malformed(f"{type_.name}.{found.name} cannot have the wire type {wire_type}")
            at = after
        return into

    def _value(self, at: int, end: int, wire_type: int, type_: _Type, number: int) -> tuple[Any, int]:
        """Return the value at an offset and the offset behind it; of bytes, the offsets of both ends."""
        if wire_type == _VARINT:
            return self._varint(at, end)
        if wire_type == _BYTES:
            size, at = self._varint(at, end)
            if size > end - at:
                raise _Malformed(f"field {number} of {type_.name} is cut off")
            return (at, at + size), at + size
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire_type, 0)
        if not size:
            raise _Malformed(f"field {number} of {type_.name} has the unknown wire type {wire_type}")
        if size > end - at:
            raise _Malformed(f"field {number} of {type_.name} is cut off")
        return self._data[at : at + size], at + size

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end:
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
            if shift > 63:
                raise _Malformed("an integer has more than 64 bits")
        raise _Malformed("an integer is cut off")

    def _add(self, into: Document, found: _Field, value: Any, depth: int) -> None:
        name = found.name
        if found.shape == "[]":
            into.setdefault(name, []).append(self._convert(found, value, None, depth))
        elif found.shape == "{}":
            assert found.entry is not None
            entry = self.read(value, found.entry, {}, depth + 1)
            item = entry["value"] if "value" in entry else found.zero()
            into.setdefault(name, {})[entry.get("key", "")] = item
        elif found.is_inline:
            assert found.message is not None
            self.read(value, found.message, into, depth + 1)
        else:
            converted = self._convert(found, value, into.get(name), depth)
            if not (found.is_omitted_empty and converted in ("", 0, False, None, {})):
                into[name] = converted

    def _add_packed(self, into: Document, found: _Field, span: tuple[int, int]) -> None:
        at, end = span
        items = into.setdefault(found.name, [])
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise _Malformed(f"it has more than {MAX_FIELDS} fields")
            value, at = self._value(at, end, found.wire_type, _Type(found.name), 1)
            items.append(self._convert(found, value, None, 0))

    def _convert(self, found: _Field, value: Any, before: Any, depth: int) -> Any:
        """Return the JSON form of a value; `before` is that of a message that came earlier."""
        match found.type:
            case "":
                assert found.message is not None
                into = before if isinstance(before, dict) and found.message.finish is None else {}
                return found.message.finished(self.read(value, found.message, into, depth + 1))
            case "s":
                return self._text(value, found)
            case "i":
                return value - (1 << 64) if value >> 63 else value
            case "b":
                return value != 0
            case "d":
                return struct.unpack("<d", value)[0]
            case "raw":
                return self._data[value[0] : value[1]]
            case _:
                return base64.b64encode(self._data[value[0] : value[1]]).decode()

    def _text(self, span: tuple[int, int], found: _Field) -> str:
        try:
            return self._data[span[0] : span[1]].decode()
        except UnicodeDecodeError:
            raise _Malformed(f"the value of {found.name} is not UTF-8") from None


_KEY = _Field("key", "", "s", None)


# the types whose JSON form is another than that of their message


def _time(document: Document) -> str | None:
    """Whole seconds; a message without fields is no time."""
    return _moment(document).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20) if document else None


def _micro_time(document: Document) -> str | None:
    return _moment(document).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27) if document else None


def _moment(document: Document) -> datetime:
    seconds, nanos = document.get("seconds", 0), document.get("nanos", 0)
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise _Malformed(f"the time {seconds} s after 1970 is not between the years 1 and 9999") from None


def _json(document: Document) -> Any:
    """Bytes that are JSON themselves."""
    raw = document.get("raw")
    if not raw:
        return None
    if raw.count(b"{") + raw.count(b"[") > MAX_FIELDS:
        raise _Malformed(f"an embedded document has more than {MAX_FIELDS} objects and lists")
    try:
        return read_json(raw)
    except DocumentError as error:
        raise _Malformed(f"an embedded document is not JSON: {error}") from None


def _either(number: str, text: str) -> Callable[[Document], Any]:
    """The one of two fields that `type` selects."""
    return lambda document: document.get(text, "") if document.get("type") == 1 else document.get(number, 0)


def _duration(document: Document) -> str:
    """Seconds, exactly, as Go reads them."""
    seconds, nanos = divmod(abs(document.get("duration", 0)), 10**9)
    sign = "-" if document.get("duration", 0) < 0 else ""
    return f"{sign}{seconds}.{nanos:09}s"


_SPECIAL: Mapping[str, tuple[str, Callable[[Document], Any]]] = {
    "meta.v1.Time": ("1:seconds:i 2:nanos:i", _time),
    "meta.v1.MicroTime": ("1:seconds:i 2:nanos:i", _micro_time),
    "meta.v1.Duration": ("1:duration:i", _duration),
    "meta.v1.FieldsV1": ("1:raw:raw", _json),
    "resource.Quantity": ("1:string:s", lambda document: document.get("string", "0") or "0"),
    "intstr.IntOrString": ("1:type:i 2:intVal:i 3:strVal:s", _either("intVal", "strVal")),
    "runtime.RawExtension": ("1:raw:raw", _json),
    "apiextensions.v1.JSON": ("1:raw:raw", _json),
    "apiextensions.v1.JSONSchemaPropsOrArray": (
        "1:schema:*apiextensions.v1.JSONSchemaProps 2:all:[]apiextensions.v1.JSONSchemaProps",
        lambda document: document.get("all") or document.get("schema"),
    ),
    "apiextensions.v1.JSONSchemaPropsOrBool": (
        "1:allows:b 2:schema:*apiextensions.v1.JSONSchemaProps",
        lambda document: document.get("schema") or document.get("allows", False),
    ),
    "apiextensions.v1.JSONSchemaPropsOrStringArray": (
        "1:schema:*apiextensions.v1.JSONSchemaProps 2:property:[]s",
        lambda document: document.get("property") or document.get("schema"),
    ),
    **dict.fromkeys(
        (f"{group}.v1.ExtraValue" for group in ("authentication", "authorization", "certificates")),
        ("1:items:[]s", lambda document: document.get("items", [])),
    ),
}

_ENVELOPE = "1:typeMeta:TypeMeta 2:raw:raw 3:contentEncoding:s 4:contentType:s"
_ABOUT = "1:apiVersion:s 2:kind:s"


@lru_cache(maxsize=1)
def _types() -> tuple[dict[tuple[str, str], _Type], _Type]:
    """Return the types by apiVersion and kind, and the type of the envelope."""
    text = resources.files(__package__).joinpath("protobuf_types.txt").read_text(encoding="utf-8")
    lines: dict[str, list[str]] = {"TypeMeta": [_ABOUT], "Unknown": [_ENVELOPE]}
    lines |= {name: [fields] for name, (fields, _) in _SPECIAL.items()}
    kinds: dict[tuple[str, str], str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("  "):
            lines[name].append(line)
        elif not line.startswith("#"):
            name, *kind = line.split()
            lines[name] = []
            if kind:
                kinds[kind[0], kind[1]] = name
    types = {name: _Type(name) for name in lines}
    for name, (_, finish) in _SPECIAL.items():
        types[name].finish = finish
    for name, type_ in types.items():
        type_.fields.update(_read_field(text, types) for line in lines[name] for text in line.split())
    return {kind: types[name] for kind, name in kinds.items()}, types["Unknown"]


def _read_field(text: str, types: Mapping[str, _Type]) -> tuple[int, _Field]:
    match = _FIELD.match(text)
    if match is None:
        raise ValueError(f"protobuf_types.txt: {text!r} is not a field")
    number, name, inline, shape, _, type_, omitted = match.groups()
    message = types.get(type_)
    scalar = "" if message is not None else type_
    entry = _Type(name, {1: _KEY, 2: _Field("value", "", scalar, message)}) if shape == "{}" else None
    return int(number), _Field(name, shape, scalar, message, bool(inline), bool(omitted), entry)
