"""Why a pod waits, as shown to users."""

from enum import StrEnum

from koordpy.api.output_model import OutputModel


class Certainty(StrEnum):
    """How certain a cause is: certain, likely, or merely possible."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Cause(OutputModel):
    """Why a pod waits, and what to do about it."""

    cause: str
    certainty: Certainty
    message: str
    fix: str
