"""The type information of strategic merge patch: fields, merged lists and their merge keys.

Kubernetes writes this as Go field tags. Here it is the text of `patch_types.txt` (its head explains the
notation), read once, when the first patch is applied.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

_FIELD = re.compile(
    r"(?P<name>[\w$.-]+)(?::(?P<pointer>\*?)(?P<list>\[)?(?P<type>[\w.]*)\]?(?P<tag>=\w*|!)?)?\Z"
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a type. `type` is empty for scalars and for objects with free keys."""

    name: str
    type: str = ""
    is_list: bool = False
    may_be_unset: bool = False
    is_merged: bool = False
    is_replaced: bool = False
    merge_key: str = ""


class PatchType:
    """The fields of one type, found by name, or else by name without regard to case."""

    def __init__(self, name: str, fields: list[Field]) -> None:
        self.name = name
        self._fields = {field.name: field for field in fields}
        self._folded: dict[str, Field] = {}
        for field in fields:
            self._folded.setdefault(_fold(field.name), field)

    @property
    def fields(self) -> Iterable[Field]:
        """All fields."""
        return self._fields.values()

    def field(self, name: str) -> Field | None:
        """Return the field that a JSON member of this name decodes into."""
        return self._fields.get(name) or self._folded.get(_fold(name))


@lru_cache(maxsize=1)
def patch_types() -> Mapping[str, PatchType]:
    """Return all types by name, the patchable kinds among them."""
    text = resources.files(__package__).joinpath("patch_types.txt").read_text(encoding="utf-8")
    fields: dict[str, list[Field]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("  "):
            fields[name].extend(map(_read_field, line.split()))
        elif line and not line.startswith("#"):
            name = line.strip()
            fields[name] = []
    return {name: PatchType(name, own) for name, own in fields.items()}


def _read_field(text: str) -> Field:
    match = _FIELD.match(text)
    if match is None:
        raise ValueError(f"patch_types.txt: {text!r} is not a field")
    tag = match["tag"] or ""
    return Field(
        name=match["name"],
        type=match["type"] or "",
        is_list=match["list"] is not None,
        may_be_unset=bool(match["pointer"]),
        is_merged=tag.startswith("="),
        is_replaced=tag == "!",
        merge_key=tag[1:] if tag.startswith("=") else "",
    )


def _fold(name: str) -> str:
    """Fold case as Go's JSON decoder does: the long s and the Kelvin sign count as s and k."""
    return name.replace("\u017f", "s").lower()
