"""`docs/admission.md` names handlers and arguments that there are."""

import re
from pathlib import Path

from koordpy import settings
from koordpy.admission.config import DEFAULT_HANDLERS, AdmissionConfig, build_chains
from koordpy.admission.gates import SPECS

from .reviews import handle

PAGE = (Path(__file__).parents[3] / "docs" / "admission.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\S+\.\S+) \| ?(.*?) ?\|", PAGE, re.MULTILINE)


def test_handlers_are_listed_in_their_order() -> None:
    named = [name for name, _ in ROWS]
    assert named == [name for name in DEFAULT_HANDLERS if name in named]


def test_gates_are_the_handlers() -> None:
    on = {gate: not gate.startswith("Disable") for gate in SPECS}
    chains = build_chains(AdmissionConfig(), handle(**on))
    handlers = {item.identity(): type(item) for chain in chains.values() for item in chain.handlers}
    for name, gate in ROWS:
        type_ = handlers[name]
        assert gate == (f"not {type_.disabled_by}" if type_.disabled_by else type_.feature or "")


def test_example_is_a_configuration_that_works(tmp_path: Path) -> None:
    file = tmp_path / "koordpy.yaml"
    file.write_text(PAGE.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    read = settings.load(file)
    config = AdmissionConfig(enabled=list(read.admission.enabled))
    chains = build_chains(config, handle(**read.feature_gates))
    assert [item.name for item in chains["/validate-pod-binding"].handlers] == ["BindingAdmission"]
