"""The paths and queries of requests to the API server."""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from koordpy.api.scheme import Resource

_PLAIN = re.compile(r"(?!\.\.?$)[A-Za-z0-9._:-]+").fullmatch


def object_path(resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the path of an object, or without a name of a collection.

    Names are escaped, so that none can point elsewhere. Raises ValueError for `.` and `..`.
    """
    return resource.path(_segment(namespace), _segment(name), subresource)


def _segment(name: str) -> str:
    if not name or _PLAIN(name):
        return name
    if name in (".", ".."):
        raise ValueError(f"{name!r} cannot be the name of an object")
    return quote(name, safe="")


def query_of(parameters: Mapping[str, str | None]) -> str:
    """Return the query with its question mark, empty where no parameter has a value."""
    given = {key: value for key, value in parameters.items() if value}
    return "?" + urlencode(given) if given else ""
