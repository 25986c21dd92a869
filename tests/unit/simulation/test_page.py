"""`docs/simulation.md` and what it describes: every example is read, every field of a scenario is named."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from koordpy.api import config_model
from koordpy.simulation import scenario
from koordpy.simulation.scenario import Scenario

from .scenarios import document

PAGE = (Path(__file__).parents[3] / "docs" / "simulation.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def whole(example: dict[str, Any]) -> dict[str, Any]:
    """The scenario that an example is a part of."""
    if "cpu" in example.get("usage", {}):  # a workload's usage
        [workload] = document()["workloads"]
        example = {"workloads": [{**workload, **example}]}
    return {**document(duration="4h"), **{key: value for key, value in example.items() if value}}


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split(":")[0])
def test_an_example_is_read(text: str) -> None:
    told = config_model.read(Scenario, whole(yaml.safe_load(text)))
    assert told.name


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The models that a model is made of, itself first."""
    yield model
    for field in model.model_fields.values():
        pending = [field.annotation]
        while pending:
            type_ = pending.pop()
            pending += getattr(type_, "__args__", ())
            if isinstance(type_, type) and issubclass(type_, BaseModel):
                yield from models(type_)


def test_every_field_is_described() -> None:
    names = {
        str(field.alias or name) for model in models(Scenario) for name, field in model.model_fields.items()
    }
    missing = sorted(name for name in names if not re.search(rf"\b{name}\b", PAGE))
    assert missing == []


def test_the_page_names_the_version() -> None:
    assert f"apiVersion: {scenario.API_VERSION}" in PAGE
