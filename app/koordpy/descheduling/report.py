"""What plugins report about a run beyond single pods, such as the nodes by class with their figures."""

from pydantic import BaseModel

from koordpy.api.output_model import OutputModel

_BYTES_PER_CHARACTER = 4
"""Memory of a model, per character of its JSON text, by measurement."""


class Report(OutputModel):
    """A plugin's explanation of one run, which the record of the round keeps: hold no objects of the cluster.

    Reports about many nodes override both methods: they are asked for single nodes, and in each round.
    """

    def about_node(self, name: str) -> BaseModel | None:
        """Return what the report says about a node; None if nothing."""
        return None

    def held_bytes(self) -> int:
        """Return the memory that the report holds, by estimate."""
        return held_bytes(self)


def held_bytes(model: BaseModel) -> int:
    """Return the memory that a model holds, by estimate: from the length of its JSON text."""
    return _BYTES_PER_CHARACTER * len(model.model_dump_json())
