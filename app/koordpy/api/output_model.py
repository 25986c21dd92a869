"""The base of what the debug API and commands return as JSON: keys in camelCase, as in Kubernetes."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class OutputModel(BaseModel):
    """A part of a JSON response. Fields have Python's names in code and camelCase ones in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)
