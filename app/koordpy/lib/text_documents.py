"""JSON and YAML from outside this process, read within limits.

A few bytes can demand much: 60 kB of opening brackets overflow the stack of a recursive parser, and 350
bytes of aliases expand to millions of values. So documents are built from the parser's stream of events,
without recursion, and size, nesting and what aliases add are counted on the way: the first event beyond a
limit is an error. Errors say where, by line and column, and what was expected.

YAML has JSON's types here, as in Kubernetes: times and `12:30` are text, keys become text.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import msgspec
import yaml

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MOST_TAG_DIRECTIVES: Final = 16
"""The parser compares each with all others."""

_TAG_DIRECTIVE: Final = re.compile(r"^%TAG\b", re.MULTILINE)
_STANDARD: Final = "tag:yaml.org,2002:"
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Final[dict[str, Any]] = {
    spelling: value
    for words, value in ((("yes", "true", "on"), True), (("no", "false", "off"), False), (("null",), None))
    for word in words
    for spelling in (word, word.capitalize(), word.upper())
} | {"": None, "~": None}
_FIRST_OF_NUMBERS: Final = frozenset("+-.0123456789")
_LONGEST_NUMBER: Final = 250
"""Characters; what is longer, in any base, may not be a finite float, and is text."""


class DocumentError(ValueError):
    """A text is not a document, or exceeds a limit; the message says where and what was expected."""


class RepeatedKeyError(DocumentError):
    """An object has a key twice."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a text may have.

    `size` is in bytes (for decoded text, in characters). `depth` is how deep lists and objects nest.
    `aliased` is what the aliases of a text in YAML may add to it: values, and characters of scalars.
    `values` is how many it may have; objects, lists and scalars count, keys do not.
    """

    size: int = 1 << 29
    values: int = 1 << 29
    depth: int = 100
    aliased: int = 1 << 18


FILE: Final = Limits()
"""For files that users name."""


def read_json(text: bytes | str, limits: Limits = FILE) -> Any:
    """Return the document in a JSON text. Raises DocumentError."""
    _check_size(text, limits)
    try:
        document = msgspec.json.decode(text)
    except RecursionError:
        raise DocumentError(f"nested more than {limits.depth} levels deep") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise DocumentError(_located(str(error), text)) from None
    openers = _count(text, "[") + _count(text, "{")
    if openers > limits.depth:
        check_depth(document, limits.depth)
    if openers + _count(text, ",") > limits.values and count_values(document, limits.values) > limits.values:
        raise DocumentError(f"more than {limits.values} values")
    return document


def _count(text: bytes | str, character: str) -> int:
    return text.count(character.encode()) if isinstance(text, bytes) else text.count(character)


def count_values(document: Any, most: int) -> int:
    """Return how many values a document has, or any number beyond `most` if it has more."""
    found, pending = 1, [document] if isinstance(document, dict | list) else []
    while pending and found <= most:
        value = pending.pop()
        found += len(value)
        children = value.values() if isinstance(value, dict) else value
        pending.extend(child for child in children if isinstance(child, dict | list))
    return found


def check_depth(document: Any, depth: int) -> None:
    """Raise DocumentError if the lists and objects of a document nest deeper than `depth` levels."""
    level = [document]
    for _ in range(depth):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise DocumentError(f"nested more than {depth} levels deep")


def read_yaml(text: bytes | str, limits: Limits = FILE, *, unique_keys: bool = False) -> Any:
    """Return the only document in a YAML text, None for an empty text. Raises DocumentError.

    With `unique_keys` a key that an object has twice is an error; otherwise the last one counts.
    """
    found = None
    for number, (document, event) in enumerate(_documents(text, limits, unique_keys)):
        if number:
            raise DocumentError(f"{_place(event)}: a second document, expected only one")
        found = document
    return found


def read_all_yaml(text: bytes | str, limits: Limits = FILE, *, unique_keys: bool = False) -> list[Any]:
    """Return all documents in a YAML text. Raises DocumentError, as `read_yaml` does."""
    return [document for document, _ in _documents(text, limits, unique_keys)]


def _check_size(text: bytes | str, limits: Limits) -> None:
    if len(text) > limits.size:
        raise DocumentError(f"larger than {limits.size} bytes")


def _located(message: str, text: bytes | str) -> str:
    """Replace the byte position in a message of the JSON decoder by line and column."""
    found = re.search(r" \(byte (\d+)\)$", message)
    if found is None:
        return message
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    before = data[: int(found[1])]
    column = len(before) - (before.rfind(b"\n") + 1) + 1
    line = before.count(b"\n") + 1
    return f"line {line}, column {column}: {message[: found.start()]}"


def _place(event: Any) -> str:
    return f"line {event.start_mark.line + 1}, column {event.start_mark.column + 1}"


def _documents(text: bytes | str, limits: Limits, unique_keys: bool) -> Iterator[tuple[Any, Any]]:
    """Yield each document with the event that starts it."""
    _check_size(text, limits)
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DocumentError(f"not text in UTF-8: {error.reason} (byte {error.start})") from None
    if len(_TAG_DIRECTIVE.findall(text)) > _MOST_TAG_DIRECTIVES:
        raise DocumentError(f"more than {_MOST_TAG_DIRECTIVES} %TAG directives")
    try:
        loader = _LOADER(text)
        next_event = loader.get_event
        while not isinstance(event := next_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                yield _Builder(next_event, limits, unique_keys).build(), event
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise DocumentError(f"{place}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise DocumentError(" ".join(str(error).split())) from None


class _Collection:
    """A list or an object whose end has not been read."""

    __slots__ = ("anchor", "height", "is_mapping", "key", "merged", "value", "weight")

    def __init__(self, is_mapping: bool, anchor: str | None) -> None:
        self.is_mapping = is_mapping
        self.anchor = anchor
        self.value: Any = {} if is_mapping else []
        self.key: Any = _NO_KEY
        self.merged: list[dict[str, Any]] | None = None
        self.weight = 1
        self.height = 1


_NO_KEY: Final = object()
_MERGE: Final = object()


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Any
    weight: int
    height: int


class _Builder:
    """Builds one document from the events that follow its start."""

    def __init__(self, next_event: Callable[[], Any], limits: Limits, unique_keys: bool) -> None:
        self._next = next_event
        self._limits = limits
        self._unique_keys = unique_keys
        self._open: list[_Collection] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._aliased = 0
        self._values = 0
        self._root: Any = None

    def build(self) -> Any:
        while not isinstance(event := self._next(), yaml.DocumentEndEvent):
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._start(event, kind is yaml.MappingStartEvent)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            else:
                self._end(event)
        return self._root

    def _scalar(self, event: Any) -> None:
        value = _scalar(event)
        weight = 1 + len(event.value)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, weight, 0)
        is_merge = event.value == "<<" and event.implicit[0] and event.tag is None
        self._put(event, _MERGE if is_merge else value, weight, 0)

    def _start(self, event: Any, is_mapping: bool) -> None:
        if event.tag not in (None, "!", _STANDARD + ("map" if is_mapping else "seq")):
            raise DocumentError(f"{_place(event)}: tag {event.tag[:60]!r}, expected a type that JSON has")
        above = self._open[-1] if self._open else None
        if above is not None and above.is_mapping and above.key is _NO_KEY:
            raise DocumentError(f"{_place(event)}: a key that is a list or an object, expected text")
        if len(self._open) >= self._limits.depth:
            raise DocumentError(f"{_place(event)}: nested more than {self._limits.depth} levels deep")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Collection(is_mapping, event.anchor))

    def _end(self, event: Any) -> None:
        closed = self._open.pop()
        if closed.merged is not None:
            for merged in closed.merged:
                for key, value in merged.items():
                    closed.value.setdefault(key, value)
        if closed.anchor is not None:
            self._anchors[closed.anchor] = _Anchored(closed.value, closed.weight, closed.height)
        self._put(event, closed.value, closed.weight, closed.height)

    def _alias(self, event: Any) -> None:
        try:
            found = self._anchors[event.anchor]
        except KeyError:
            raise DocumentError(
                f"{_place(event)}: alias *{event.anchor} of an anchor that is not defined"
            ) from None
        if found is None:
            raise DocumentError(
                f"{_place(event)}: alias *{event.anchor} is part of its own anchor &{event.anchor}"
            )
        self._aliased += found.weight
        if self._aliased > self._limits.aliased:
            raise DocumentError(
                f"{_place(event)}: aliases add more than {self._limits.aliased} values and characters"
            )
        if len(self._open) + found.height > self._limits.depth:
            raise DocumentError(f"{_place(event)}: nested more than {self._limits.depth} levels deep")
        self._put(event, _copy(found.value), found.weight, found.height)

    def _put(self, event: Any, value: Any, weight: int, height: int) -> None:
        """Add a complete value, or the key of the next one, to the collection that it is in."""
        self._values += 1
        if self._values > 2 * self._limits.values:  # keys count here too
            raise DocumentError(f"{_place(event)}: more than {self._limits.values} values")
        if not self._open:
            self._root = "<<" if value is _MERGE else value
            return
        above = self._open[-1]
        above.weight += weight
        if height >= above.height:
            above.height = height + 1
        if not above.is_mapping:
            above.value.append("<<" if value is _MERGE else value)
        elif above.key is _NO_KEY:
            above.key = value if value is _MERGE else self._key(event, value, above.value)
        elif above.key is _MERGE:
            above.key = _NO_KEY
            self._merge(event, above, value)
        else:
            above.value[above.key] = "<<" if value is _MERGE else value
            above.key = _NO_KEY

    def _key(self, event: Any, value: Any, siblings: dict[str, Any]) -> str:
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int | float):
            value = str(value)
        elif not isinstance(value, str):
            raise DocumentError(f"{_place(event)}: a key that is {_name(value)}, expected text")
        if self._unique_keys and value in siblings:
            raise RepeatedKeyError(f"line {event.start_mark.line + 1}: field {value!r} is given twice")
        return str(value)

    @staticmethod
    def _merge(event: Any, above: _Collection, value: Any) -> None:
        sources = value if isinstance(value, list) else [value]
        for source in sources:
            if not isinstance(source, dict):
                raise DocumentError(
                    f"{_place(event)}: <<: got {_name(source)}, expected an object or a list of them"
                )
        above.merged = (above.merged or []) + sources


def _name(value: Any) -> str:
    if value is None:
        return "null"
    return (
        "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)[:60]
    )


def _copy(value: Any) -> Any:
    """Copy what an alias stands for, so that a change of one is not a change of the other."""
    if isinstance(value, dict):
        return {key: _copy(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_copy(child) for child in value]
    return value


def _scalar(event: Any) -> Any:
    """Return the value of a scalar, by its tag or, if it is plain, by its text."""
    text, tag = event.value, event.tag
    if tag is None:
        return _plain(event, text) if event.implicit[0] else text
    name = tag[len(_STANDARD) :] if tag.startswith(_STANDARD) else ""
    if tag == "!" or name == "str":
        return text
    if name in _TYPES:
        value = _plain(event, text)
        if name == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, _TYPES[name]) and (name == "bool" or not isinstance(value, bool)):
            return value
        raise DocumentError(f"{_place(event)}: {text[:60]!r}, expected {name} by its tag")
    raise DocumentError(f"{_place(event)}: tag {tag[:60]!r}, expected a type that JSON has")


_TYPES: Final[dict[str, type]] = {"null": type(None), "bool": bool, "int": int, "float": float}


def _plain(event: Any, text: str) -> Any:
    """Return the value of plain text: null, a boolean, a number or itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST_OF_NUMBERS or len(text) > _LONGEST_NUMBER:
        return text
    if _INT.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        number = float(text.replace("_", ""))
        return number if isfinite(number) else text
    if _NOT_FINITE.fullmatch(text):
        raise DocumentError(f"{_place(event)}: {text}, which JSON does not have")
    return text


def _integer(text: str) -> Any:
    """Return an integer, one beyond 64 bits as a float, or the text if it only resembles one (`08`)."""
    digits = text.replace("_", "")
    unsigned = digits.lstrip("+-")
    base = 10
    if unsigned[:2] in ("0b", "0x"):
        base = 2 if unsigned[1] == "b" else 16
    elif unsigned[0] == "0" and len(unsigned) > 1:
        base = 8
    try:
        value = int(digits, base)
    except ValueError:
        return text
    return value if -(1 << 63) <= value < 1 << 64 else float(value)
