"""Configurations of the descheduler, from text to the profiles that run: `koordpy.descheduling.config`."""

from typing import Any

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.catalogue import GROUP, installed
from koordpy.descheduling.config.decoding import DecodingError, Problem, decode
from koordpy.descheduling.config.defaulting import set_defaults
from koordpy.descheduling.config.validation import validate
from koordpy.descheduling.engine.descheduler import Descheduler
from koordpy.descheduling.interface import BalancePlugin, EvictPlugin, FilterPlugin, Plugin
from koordpy_plugins.descheduling.lownodeload.args import LowNodeLoadArgs
from koordpy_plugins.descheduling.migrationcontroller.args import MigrationControllerArgs


class MigrationController(EvictPlugin, FilterPlugin):
    """As in the vectors, only its arguments are checked."""

    name = "MigrationController"
    args: MigrationControllerArgs

    def filter(self, pod: object) -> bool:
        raise NotImplementedError

    def pre_eviction_filter(self, pod: object) -> bool:
        raise NotImplementedError

    async def evict(self, pod: object, options: object) -> bool:
        raise NotImplementedError


class LowNodeLoad(BalancePlugin):
    """As in the vectors, only its arguments are checked."""

    name = "LowNodeLoad"
    args: LowNodeLoadArgs

    async def balance(self, nodes: object) -> Any:
        raise NotImplementedError


_SCRIPTED: list[type[Plugin]] = [MigrationController, LowNodeLoad]
_NAMES = {plugin.name for plugin in _SCRIPTED}
_INSTALLED = installed()
CATALOGUE: Catalogue[Plugin] = Catalogue.of(
    GROUP, Plugin, [*_SCRIPTED, *(_INSTALLED.load(name) for name in _INSTALLED if name not in _NAMES)]
)


def run(case: dict[str, Any], tag: str | None) -> object:
    try:
        given = decode(case["config"], CATALOGUE)
    except DecodingError as error:
        text = f"{error.place}strict decoding error: {', '.join(error.fields)}"
        return {
            "stage": "load",
            "class": str(error.kind),
            "error": text if error.kind is Problem.STRICT else str(error),
        }
    config = set_defaults(given, CATALOGUE)
    answer: dict[str, Any] = {"loaded": config.written()}
    if errors := validate(config):
        return answer | {"stage": "validate", "errors": list(map(str, errors))}
    once = config.model_copy(update={"descheduling_interval": 0})  # arguments are not adapted to it
    try:
        descheduler = Descheduler(once, CATALOGUE, Cluster())
    except ConfigError as error:
        return answer | {"stage": "profiles", "error": str(error)}
    completed = [
        {"name": profile.name, "pluginConfig": [entry.name for entry in profile.plugin_config]}
        for profile in (framework.completed_profile for framework in descheduler.frameworks)
    ]
    return answer | {"stage": "ok", "completed": completed}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    if expected.get("panic"):
        return isinstance(ours, dict) and ours["stage"] != "ok"
    if expected["stage"] == "load":
        return _same_refusal(ours, expected)
    if expected["stage"] == "profiles" and ours["stage"] == "profiles":
        ours = ours | {"error": _comparable(ours["error"], expected["error"])}
        expected = expected | {"error": _comparable(expected["error"], expected["error"])}
    return bool(ours == expected)


_MISSING = '" does not exist'


def _same_refusal(ours: Any, expected: Any) -> bool:
    """The class is compared, and what Kubernetes' strict decoding found except in YAML."""
    if ours["stage"] != "load" or ours["class"] != expected["class"]:
        return False
    text: str = expected["error"]
    return expected["class"] != "strict" or "yaml: unmarshal errors" in text or ours["error"] == text


def _comparable(text: str, expected: str) -> str:
    """Texts of Go's decoder are not compared, nor is our hint which plugins there are."""
    if "json: cannot unmarshal" in expected:
        return '"'.join(text.split('"')[:2])
    head, missing, _ = text.partition(_MISSING + "; ")
    return head + _MISSING if missing else text
