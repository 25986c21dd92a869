"""Which objects of a type are followed."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Selector:
    """What to list and watch of a type: a namespace, labels, fields, in the API server's own format."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def __or__(self, other: "Selector") -> "Selector":
        """Return a selector of the objects of both, and of more if they differ."""
        if self == other:
            return self
        return Selector(self.namespace if self.namespace == other.namespace else "")


EVERYTHING: Final = Selector()
