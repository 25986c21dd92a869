"""The base of extension points with two forms: one item at a time, or all at once as arrays."""

from typing import ClassVar

Forms = tuple[tuple[str, str], ...]
"""Pairs of methods: for one, and for all at once."""


class TwoForms:
    """A point that handles many items: a plugin implements a method for one, or one for all as arrays.

    A point names the pairs of methods in `_forms`; each is written in terms of the other.
    """

    _forms: ClassVar[Forms] = ()


def check_forms(plugin: type) -> None:
    """Raise TypeError if a plugin inherits a point with two forms and defines neither."""
    for point in plugin.__mro__:
        for single, batch in point.__dict__.get("_forms", ()):
            if all(getattr(plugin, form) is getattr(point, form) for form in (single, batch)):
                name = plugin.__name__
                raise TypeError(f"{name} is a {point.__name__} and must define {single} or {batch}")
