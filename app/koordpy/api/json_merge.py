"""JSON merge patch (RFC 7396) as kube-apiserver implements it.

The patch format of custom resources and of controllers that only set what they own. The rules are those of
gopkg.in/evanphx/json-patch.v4 `MergePatch`; their deviations from the RFC concern nulls inside lists, see
`_settled`.
"""

from typing import Any

from koordpy.api.patch import PatchError, clone, describe, equal


class JSONMergeError(PatchError):
    """A merge patch that is neither an object nor a list, or a document that is null."""


def apply(document: Any, patch: Any) -> Any:
    """Return `document` merged with `patch`; the arguments stay as they are.

    With a list as patch, or a document that is not an object, the result is the patch without its nulls.
    Raises JSONMergeError (code 400).
    """
    if not isinstance(patch, dict | list):
        raise JSONMergeError(f"JSON merge patch: expected an object, got {describe(patch)}", 400)
    if document is None:
        raise JSONMergeError("JSON merge patch: the document is null", 400)
    try:
        if isinstance(patch, list) or not isinstance(document, dict):
            return _settled(patch)
        return _merged(document, patch)
    except RecursionError:
        raise JSONMergeError("JSON merge patch: values are nested too deeply", 400) from None


def diff(before: Any, after: Any) -> dict[str, Any]:
    """Return the merge patch that turns one object into another; it is empty where they are equal.

    Lists that differ are contained whole. A null in `after` cannot be distinguished from an absent member.
    """
    patch: dict[str, Any] = dict.fromkeys(key for key in before if key not in after)
    for key, value in after.items():
        if key not in before:
            patch[key] = clone(value)
        elif isinstance(before[key], dict) and isinstance(value, dict):
            if nested := diff(before[key], value):
                patch[key] = nested
        elif not equal(before[key], value):
            patch[key] = clone(value)
    return patch


def _merged(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = {key: clone(value) for key, value in document.items() if key not in patch}
    for key, value in patch.items():
        if value is None:
            continue
        current = document.get(key)
        if not isinstance(current, dict):
            result[key] = _settled(value)
        elif isinstance(value, dict):
            result[key] = _merged(current, value)
        else:
            result[key] = clone(value)  # in place of an object, a list is used verbatim, nulls included
    return result


def _settled(value: Any) -> Any:
    """Return a copy without the null members of objects; nulls that are list items stay."""
    if isinstance(value, dict):
        return {key: _settled(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_settled(item) for item in value]
    return value
