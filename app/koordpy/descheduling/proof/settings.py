"""The field `proof` of a profile, which Koordinator does not have."""

from koordpy.api.config_model import ConfigModel, Duration
from koordpy.api.field_error import FieldError, invalid
from koordpy.lib import duration


class ProofSettings(ConfigModel):
    """Whether and how evictions of a profile are proved; a profile without it behaves as in Koordinator."""

    enabled: bool = True
    window: Duration = duration.HOUR
    """For how long a moved pod is not moved again by the same plugin, unless its node has really changed;
    nanoseconds, 0 for not at all."""


def proof_errors(path: str, settings: ProofSettings | None) -> list[FieldError]:
    """Return the errors in a profile's proof."""
    if settings is None or settings.window >= 0:
        return []
    window = duration.format(settings.window)
    return [invalid(f"{path}.window", window, "must be greater than or equal to 0 (0: no window)")]
