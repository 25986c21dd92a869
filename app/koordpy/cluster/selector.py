"""Which objects of a type are followed."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Selector:
    """What to list and watch of a type: a namespace, labels, fields, in the API server's own format."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


EVERYTHING: Final = Selector()
