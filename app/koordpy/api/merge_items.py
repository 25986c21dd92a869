"""The items of a list that a strategic merge patch merges: their identity and order.

Items are identified by their merge key, or in a list of scalars by their value. After merging, a list is
sorted: `Items.ordered` has the rule, which is that of k8s.io/apimachinery 0.35.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from koordpy.api.patch import PatchError, describe

PATCH = "$patch"

_MOST_STEPS = 1_000_000
"""Comparisons of items in one list; a step takes less than a microsecond."""

Token = tuple[str, Any]
"""A scalar with its JSON type: 1, "1", 1.0 and true are four different merge keys."""


class StrategicMergeError(PatchError):
    """A strategic merge patch that cannot be applied; the message names the place in the document."""

    def __init__(self, message: str, code: int = 500) -> None:
        super().__init__(f"strategic merge patch: {message}", code)


class Items:
    """The items of one merged list: their identity and resulting order."""

    def __init__(self, item_type: str, merge_key: str, path: str) -> None:
        self.are_objects = item_type == "object"
        self._merge_key = merge_key
        self._path = path

    def ordered(self, merged: list[Any], patch_order: list[Any], server_order: list[Any]) -> list[Any]:
        """Interleave items named in `patch_order`, in that order, with the others, in `server_order`.

        One of the others goes first only if both are in `server_order`, and it comes first there.
        """
        named = set(map(self._partition_token, patch_order))
        wanted: list[Any] = []
        others: list[Any] = []
        for item in merged:
            (wanted if self._partition_token(item) in named else others).append(item)
        wanted = self._sorted(wanted, patch_order)
        others = self._sorted(others, server_order)
        position = self._positions(server_order)
        result: list[Any] = []
        left = right = 0
        while left < len(others) and right < len(wanted):
            other = position.get(self._token(others[left]))
            item = position.get(self._token(wanted[right]))
            if other is not None and item is not None and other < item:
                result.append(others[left])
                left += 1
            else:
                result.append(wanted[right])
                right += 1
        return result + others[left:] + wanted[right:]

    def _sorted(self, items: list[Any], order: list[Any]) -> list[Any]:
        to_delete: list[Any] = []
        if self.are_objects:
            for item in (*items, *order):
                merge_token(item, self._merge_key, self._path)
            to_delete = [item for item in items if item.get(PATCH) == "delete"]
            items = [item for item in items if item.get(PATCH) != "delete"]
        position = self._positions(order)
        places = [position.get(self._token(item)) for item in items]
        return [items[index] for index in _go_stable_order(places)] + to_delete

    def _positions(self, order: list[Any]) -> dict[Token, int]:
        positions: dict[Token, int] = {}
        for index, item in enumerate(order):
            positions.setdefault(self._token(item), index)
        return positions

    def _token(self, item: Any) -> Token:
        """The identity of an item while ordering; here a scalar among objects has the key null."""
        if self.are_objects:
            return token_of(item.get(self._merge_key)) if isinstance(item, dict) else ("null", None)
        return token_of(item)

    def _partition_token(self, item: Any) -> Token:
        return merge_token(item, self._merge_key, self._path) if self._merge_key else token_of(item)


def _go_stable_order(places: Sequence[int | None]) -> list[int]:
    """Return the indexes in the order that Go's stable sort gives items with these places.

    An item without a place compares as less than any other, and any other as less than it. That is not an
    order, so the result is that of the insertion sort which Go uses for short lists.
    """
    indexes = list(range(len(places)))
    if None not in places:
        return sorted(indexes, key=lambda index: places[index] or 0)
    check_work(len(places) ** 2, "the list")
    for end in range(1, len(indexes)):
        at = end
        while at > 0 and _goes_first(places[indexes[at]], places[indexes[at - 1]]):
            indexes[at], indexes[at - 1] = indexes[at - 1], indexes[at]
            at -= 1
    return indexes


def _goes_first(place: int | None, other: int | None) -> bool:
    return place is None or other is None or place < other


def without_duplicates(items: list[Any]) -> list[Any]:
    """Drop repeated scalars as Go does: the last item takes the place of a repeated one.

    If the document's own list holds a scalar twice, Go's result also depends on spare capacity in memory;
    that is not reproduced.
    """
    items = list(items)
    if len(set(map(token_of, items))) == len(items):
        return items
    check_work(len(items) ** 2, "the list")
    at = 0
    while at < len(items):
        token = token_of(items[at])
        other = at + 1
        while other < len(items):
            if token_of(items[other]) == token:
                items[other] = items[-1]
                items.pop()
            else:
                other += 1
        at += 1
    return items


def item_type(current: list[Any], patch: list[Any], path: str) -> str:
    """Return the one JSON type of all items; an error if there are several, none, or lists."""
    types = [json_type(item) for item in (*current, *patch)]
    if not types:
        raise StrategicMergeError(f"{path}: there are no items to order")
    if types[0] == "list":
        raise StrategicMergeError(f"{path}: a list of lists cannot be merged", 422)
    if len(set(types)) > 1 or types[0] == "null":
        raise StrategicMergeError(
            f"{path}: the items must be of one type, got {', '.join(sorted(set(types)))}"
        )
    return types[0]


def json_type(value: Any) -> str:
    """Name the type that Go decodes a JSON value into; integers beyond 64 bits become fractions."""
    reader = _JSON_TYPES.get(type(value))
    return reader(value) if reader else "null"


_JSON_TYPES: dict[type, Callable[[Any], str]] = {
    dict: lambda value: "object",
    list: lambda value: "list",
    str: lambda value: "string",
    bool: lambda value: "boolean",
    int: lambda value: "integer" if -(1 << 63) <= value < 1 << 63 else "fraction",
    float: lambda value: "fraction",
    Decimal: lambda value: "fraction",
}


def token_of(value: Any) -> Token:
    """Return the comparison key of a value. Objects and lists equal nothing, not even themselves."""
    if type(value) is str:
        return "string", value
    type_ = json_type(value)
    if type_ in ("object", "list"):
        return type_, object()
    return type_, float(value) if type_ == "fraction" else value


def merge_token(item: Any, merge_key: str, path: str) -> Token:
    """Return the key by which a list item is merged: its merge key, or itself in a list of scalars."""
    if not merge_key:
        return token_of(item)
    object_item(item, path)
    if merge_key not in item:
        raise StrategicMergeError(f"{path}: an item lacks its merge key {merge_key!r}")
    return token_of(item[merge_key])


def object_item(item: Any, path: str) -> None:
    """Raise StrategicMergeError if an item of a list with a merge key is not an object."""
    if not isinstance(item, dict):
        raise StrategicMergeError(f"{path}: every item must be an object, got {describe(item)}")


def first_indexes(items: list[Any], merge_key: str) -> dict[Token, int]:
    """Return the position of the first item with each merge key."""
    found: dict[Token, int] = {}
    for index, item in enumerate(items):
        if merge_key in item:
            found.setdefault(token_of(item[merge_key]), index)
    return found


def check_work(steps: int, path: str) -> None:
    """Raise StrategicMergeError if lists are too long for what takes a step for each pair of their items."""
    if steps > _MOST_STEPS:
        raise StrategicMergeError(
            f"{path}: too many items to delete, order or drop, expected a shorter patch", 413
        )


def index_of(items: list[Any], merge_key: str, token: Token) -> int | None:
    """Return the position of the first item with this merge key, None if there is none."""
    for index, item in enumerate(items):
        if merge_key in item and token_of(item[merge_key]) == token:
            return index
    return None
