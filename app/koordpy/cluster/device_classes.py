"""The DeviceClasses of a cluster, by extended resource.

Nobody waits for them: an API server without `resource.k8s.io/v1` has none.
"""

from collections.abc import Mapping

from koordpy.api.device_class import DeviceClass, classes_by_resource

from .cluster import Cluster
from .derived_state import DerivedState, Snapshot


class DeviceClasses(DerivedState):
    """Which extended resources kube-scheduler's plugin DynamicResources allocates, and of which class."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._class_of: dict[str, str] | None = None
        self._classes = self.follow(
            DeviceClass, self._changed, lambda _, new: self._changed(new), self._changed, late=True
        )

    @property
    def class_of(self) -> Mapping[str, str]:
        """The name of the DeviceClass of each extended resource that has one."""
        if self._class_of is None:
            self._class_of = classes_by_resource(self._classes)
        return self._class_of

    def snapshot(self) -> Snapshot:
        """Return the classes by resource."""
        return {"class_of": dict(self.class_of)}

    def _changed(self, _: DeviceClass) -> None:
        self._class_of = None
