"""The arguments of NodeAffinity."""

from collections.abc import Iterable
from typing import Any

import msgspec

from koordpy.api import node_affinity
from koordpy.api.core import Affinity, NodeAffinity, PodSpec
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs


class NodeAffinityArgs(PluginArgs):
    """`addedAffinity` applies to every pod of the profile, in addition to the pod's own."""

    added_affinity: dict[str, Any] | None = None

    @property
    def added(self) -> PodSpec | None:
        """A pod spec that has the added affinity and nothing else."""
        if self.added_affinity is None:
            return None
        affinity = msgspec.convert(self.added_affinity, NodeAffinity)
        return PodSpec(affinity=Affinity(node_affinity=affinity))

    def problems(self) -> Iterable[FieldError]:
        """Validate the structure and the terms of the added affinity."""
        try:
            added = self.added
            if added is None:
                return
            errors = node_affinity.required(added).errors
            node_affinity.preferred(added)
        except (msgspec.ValidationError, node_affinity.NodeAffinityError) as error:
            yield invalid("addedAffinity", self.added_affinity, str(error))
            return
        for text in errors:
            yield invalid("addedAffinity", self.added_affinity, text)
