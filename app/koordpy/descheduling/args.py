"""The base of descheduling plugins' arguments."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from koordpy.api import config_writing, plugin
from koordpy.api.config_model import Duration
from koordpy.api.field_error import FieldError

API_VERSION = "descheduler/v1alpha2"


class Null:
    """Null in a document, where a null that Kubernetes refuses is looked for."""

    def __repr__(self) -> str:
        return "null"


NULL: Final = Null()
REFUSED_NULL: Final = "refused_null"
"""The type of pydantic's error of a null that is refused."""


def _not_null(value: object) -> object:
    if isinstance(value, Null):
        raise PydanticCustomError(REFUSED_NULL, "expected a duration, such as 90s or 1h30m")
    return value


GivenDuration = Annotated[Duration, BeforeValidator(_not_null)]
"""A `metav1.Duration` that may be absent but not null: one that is no pointer in Kubernetes."""


class PluginArgs(plugin.PluginArgs):
    """Arguments of a plugin, with Koordinator's names, defaults and validation.

    A model that refuses unknown fields, as this one does, is decoded with the configuration file, and a
    plugin that is enabled without arguments gets the defaults. Arguments whose model ignores them
    (`extra="ignore"`) stay as the file has them until the plugin is created, as Koordinator does for plugins
    of the Kubernetes descheduler.
    """

    checked_unless_enabled: ClassVar[bool] = False
    """Whether `problems` are also reported for a plugin that is configured but not enabled."""

    def adapted_to_interval(self, interval: int) -> Self:
        """Return the arguments adapted to the interval between two cycles (nanoseconds, above 0)."""
        return self

    def problems_under(self, path: str) -> Iterable[FieldError]:
        """Return the problems with their paths in a file; `path` is that of the arguments."""
        return [problem.under(path) for problem in self.problems()]

    def written(self) -> dict[str, Any]:
        """Return the arguments as a document, with the defaults, in the form in which they have effect."""
        return config_writing.written(self)

    def copied_whole(self) -> Self:
        """Return arguments of which no two parts are the same object, as Koordinator's process has them.

        Defaulting may make one object the value of several fields, which matters to a plugin that changes it.
        koord-descheduler copies the arguments of its file afterwards.
        """
        return self
