"""Curves: how much of a resource a pod uses over time."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from koordpy.api import quantity
from koordpy.api.config_model import ConfigModel, Seconds


def _not_negative(seconds: float) -> float:
    if seconds < 0:
        raise ValueError("expected a time that is not negative")
    return seconds


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("expected more than 0s")
    return seconds


Moment = Annotated[Seconds, AfterValidator(_not_negative)]
Interval = Annotated[Seconds, AfterValidator(_positive)]


class Step(ConfigModel):
    """A new value from a time on."""

    at: Moment
    value: float = Field(ge=0)


class Curve(ConfigModel):
    """How much of a resource a pod uses over time.

    It is `base * (1 + noise * r)`, where base is a share of the pod's request (`factor`) or an `amount`,
    times the shape; r is between -1 and 1, different for every pod and report.
    """

    factor: float | None = Field(default=None, ge=0, strict=False)
    amount: int | float | str | None = None
    shape: Literal["constant", "sine", "steps"] = "constant"
    amplitude: float = Field(default=0.5, ge=0, le=1, strict=False)
    """Of a sine: it goes from `1 - amplitude` to `1 + amplitude`."""
    period: Interval = 86400.0
    peak_at: Moment = 0.0
    """The time within the period at which a sine is highest."""
    steps: tuple[Step, ...] = Field(default=(), strict=False)
    """The factor of the base from each time on; 1 before the first one."""
    since: Literal["start", "running"] = "start"
    """Whether the times of sine and steps count from the scenario's start or from the pod's."""
    noise: float = Field(default=0.0, ge=0, le=1, strict=False)

    @model_validator(mode="after")
    def _consistent(self) -> "Curve":
        if self.factor is not None and self.amount is not None:
            raise ValueError("expected either factor or amount")
        if self.amount is not None:
            try:
                quantity.from_wire(self.amount)
            except ValueError as error:
                raise ValueError(f"amount: {error}") from None
        if (self.shape == "steps") != bool(self.steps):
            raise ValueError("expected steps with shape steps, and only there")
        if any(a.at >= b.at for a, b in zip(self.steps, self.steps[1:], strict=False)):
            raise ValueError("expected steps in the order of their times")
        return self
