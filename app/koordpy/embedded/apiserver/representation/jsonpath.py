"""The JSONPath of printer columns: fields, indexes, wildcards and filters on equality.

Source: Kubernetes, `k8s.io/client-go/util/jsonpath`, as far as CustomResourceDefinitions use it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from koordpy.lib.bounded_cache import cached

Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\\])+)|\[(?:(?P<index>-?\d+)|(?P<all>\*)|'(?P<quoted>[^']*)'"""
    r"""|\?\(\s*@(?P<path>(?:\.(?:\\.|[^.\s=\[\\])+)+)\s*==\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+)\s*\))\]"""
)


class JSONPathError(ValueError):
    """An invalid path; the message names it."""


@cached("json_paths", 1 << 20)
def parse(path: str) -> tuple[Step, ...]:
    """Parse a path such as `.status.conditions[?(@.type=="Ready")].status`. Raises JSONPathError."""
    text = path.removeprefix("{").removesuffix("}")
    position, steps = 0, []
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JSONPathError(f"{path!r} is not a JSON path: cannot read {text[position:]!r}")
        position = match.end()
        steps.append(_step(match))
    return tuple(steps)


def find(document: Any, path: str) -> list[Any]:
    """Return all values that a path leads to."""
    found = [document]
    for step in parse(path):
        found = [value for item in found for value in step(item)]
    return found


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None or match["quoted"] is not None:
        return _member(_unescaped(match["name"]) if match["name"] is not None else match["quoted"])
    if match["index"] is not None:
        return _item(int(match["index"]))
    if match["all"]:
        return _everything
    names = [_unescaped(name) for name in re.findall(r"\.((?:\\.|[^.\\])+)", match["path"])]
    return _filter(names, match["value"].strip("\"'"))


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and value.get(name) is not None:
            yield value[name]

    return _everything if name == "*" else step


def _item(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _everything(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _filter(names: list[str], wanted: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            found: Any = item
            for name in names:
                found = found.get(name) if isinstance(found, dict) else None
            text = str(found).lower() if isinstance(found, bool) else str(found)
            if found is not None and text == wanted:
                yield item

    return step
