"""Why a pod waits, as people are told it."""

from enum import StrEnum

from pydantic import BaseModel


class Certainty(StrEnum):
    """How sure a cause is: it is so, it is what would be expected, it is among what cannot be ruled out."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Cause(BaseModel):
    """Why a pod waits, and what to do about it."""

    cause: str
    certainty: Certainty
    message: str
    fix: str
