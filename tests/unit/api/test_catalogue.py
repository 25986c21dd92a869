"""Plugins of any kind are found, checked and created by a catalogue, with one set of errors."""

import sys
from abc import ABC, abstractmethod
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar

import pytest

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.plugin import BasePlugin, PluginArgs
from koordpy.api.plugin_errors import (
    DuplicateName,
    GateConflict,
    ImportFailed,
    NameMismatch,
    NotAPlugin,
    NotInstalled,
    NotMade,
    PluginError,
)
from koordpy.lib.feature_gates import FeatureSpec, Stage

GROUP = "koordpy.measuring"
ALPHA, BETA = FeatureSpec(False, Stage.ALPHA), FeatureSpec(True, Stage.BETA)


class Measuring(BasePlugin, ABC):
    @abstractmethod
    def measure(self) -> int: ...


class HeightArgs(PluginArgs):
    height: int = 3


class Height(Measuring):
    name = "Height"
    args: HeightArgs
    feature: ClassVar[str | None] = "Heights"
    feature_gates: ClassVar[dict[str, FeatureSpec]] = {"Heights": ALPHA, "HeightsInFeet": BETA}

    def __init__(self, args: HeightArgs, handle: str) -> None:
        super().__init__(args, handle)
        if args.height < 0:
            raise ValueError("height: got -1, expected 0 or more")
        if args.height > 9:
            raise LookupError("no ladder")

    def measure(self) -> int:
        return self.args.height


class Width(Measuring):
    name = "Width"

    def measure(self) -> int:
        return 1


class Half(Measuring):
    name = "Half"


class Nameless(Measuring):
    def measure(self) -> int:
        return 0


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{value}", GROUP)


def catalogue(**values: str) -> Catalogue[Measuring]:
    return Catalogue(GROUP, Measuring, [point(name, value) for name, value in values.items()])


def of(*types: type[Measuring]) -> Catalogue[Measuring]:
    return Catalogue.of(GROUP, Measuring, types)


def test_a_plugin_is_found_by_its_name() -> None:
    found = catalogue(Width="Width", Height="Height")
    assert list(found) == ["Height", "Width"]
    assert found["Height"] is Height
    assert "Depth" not in found
    assert found.get("Depth") is None


def test_nothing_is_imported_before_its_first_use() -> None:
    found = Catalogue(GROUP, Measuring, [point("Width", "Width"), EntryPoint("Bad", "no.such:Thing", GROUP)])
    assert found["Width"] is Width
    assert "Bad" in found
    with pytest.raises(ImportFailed):
        found.load("Bad")


@pytest.mark.parametrize(
    ("values", "name", "error", "message"),
    [
        (
            {"Height": "Height", "Width": "Width"},
            "Hight",
            NotInstalled,
            r'^at: got "Hight", expected an installed plugin of entry point group koordpy\.measuring; '
            r"did you mean Height\?$",
        ),
        ({}, "Height", NotInstalled, "group koordpy.measuring; none is installed$"),
        ({"Height": "Missing"}, "Height", ImportFailed, "cannot be imported: AttributeError: .*Missing"),
        (
            {"Height": "GROUP"},
            "Height",
            NotAPlugin,
            r"got 'koordpy\.measuring', expected a subclass of .*Measuring",
        ),
        ({"Height": "BasePlugin"}, "Height", NotAPlugin, "BasePlugin'>, expected a subclass of .*Measuring"),
        ({"Half": "Half"}, "Half", NotAPlugin, r"\.Half is abstract: it does not define measure$"),
        (
            {"Alias": "Height"},
            "Alias",
            NameMismatch,
            r'got a class with the name "Height", expected "Alias"$',
        ),
        ({"Some": "Nameless"}, "Some", NameMismatch, r'got a class with the name null, expected "Some"$'),
    ],
)
def test_errors_of_a_plugin_have_the_path_that_names_it(
    values: dict[str, str], name: str, error: type[PluginError], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        catalogue(**values).load(name, "at")
    assert isinstance(raised.value, ConfigError)
    assert str(raised.value).startswith("at: ")
    if error is not NotInstalled:
        assert f'plugin "{name}" of group koordpy.measuring' in str(raised.value)


def install(site: Path, distribution: str, version: str, module: str, code: str, points: str) -> None:
    info = site / f"{distribution}-{version}.dist-info"
    info.mkdir(parents=True)
    (site / f"{module}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}\n")


def test_a_failing_import_names_the_distribution_and_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path,
        "ladders",
        "1.2",
        "ladders_of_mine",
        "import no_such_ladder",
        "Height = ladders_of_mine:Height",
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ImportFailed,
        match=r'"Height" of group koordpy\.measuring \(ladders 1\.2: ladders_of_mine:Height\) cannot be '
        r"imported: ModuleNotFoundError: No module named 'no_such_ladder'",
    ):
        Catalogue(GROUP, Measuring).load("Height")
    sys.modules.pop("ladders_of_mine", None)


def test_one_name_from_two_distributions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, distribution in enumerate(("ladders", "stairs")):
        install(
            tmp_path / distribution,
            distribution,
            f"1.{number}",
            distribution,
            "",
            f"Height = {distribution}:Height",
        )
        monkeypatch.syspath_prepend(tmp_path / distribution)
    either = r"(ladders 1\.0: ladders:Height|stairs 1\.1: stairs:Height)"
    expected = rf"installed by {either} and by {either}; uninstall one of them"
    with pytest.raises(DuplicateName, match=expected):
        Catalogue(GROUP, Measuring)
    assert len(entry_points(group=GROUP)) == 2


def test_a_distribution_that_is_found_twice_is_one() -> None:
    twice = [point("Width", "Width"), point("Width", "Width")]
    assert list(Catalogue(GROUP, Measuring, twice)) == ["Width"]


def test_a_class_can_be_added_but_replaces_nothing() -> None:
    assert list(of(Width).including(Height)) == ["Height", "Width"]
    with pytest.raises(DuplicateName, match=r'"Width" of group .*: also the name of .*\.Width'):
        catalogue(Width="Width").including(Width)


def test_a_plugin_is_made_of_its_arguments_and_the_handle() -> None:
    found = of(Height)
    made = found.make("Height", found["Height"].read_args({"height": 4}, "args"), "the handle")
    assert (made.measure(), made.handle) == (4, "the handle")


@pytest.mark.parametrize(
    ("height", "message"),
    [
        (-1, r'^args: plugin "Height" of .* cannot be created: height: got -1, expected 0 or more$'),
        (10, r"^args: .* cannot be created: LookupError: no ladder$"),
    ],
)
def test_a_constructor_that_fails_names_the_plugin(height: int, message: str) -> None:
    with pytest.raises(NotMade, match=message):
        of(Height).make("Height", HeightArgs(height=height), "the handle", "args")


def test_gates_that_plugins_bring_are_collected() -> None:
    assert of(Height, Width).feature_gates({"Known": BETA}) == {
        "Known": BETA,
        "Heights": ALPHA,
        "HeightsInFeet": BETA,
    }


class Needy(Width):
    name = "Needy"
    feature: ClassVar[str | None] = "Unheard"


class Second(Width):
    name = "Second"
    feature_gates: ClassVar[dict[str, FeatureSpec]] = {"Heights": ALPHA}


@pytest.mark.parametrize(
    ("types", "known", "message"),
    [
        (
            (Needy,),
            {},
            '"Needy" .* feature gate "Unheard" is not known; expected it in feature_gates of .*Needy',
        ),
        ((Height, Second), {}, '"Second" .* feature gate "Heights" is declared already'),
        ((Height,), {"Heights": BETA}, '"Height" .* feature gate "Heights" is declared already'),
    ],
)
def test_a_gate_is_declared_once(
    types: tuple[type[Measuring], ...], known: dict[str, Any], message: str
) -> None:
    with pytest.raises(GateConflict, match=message):
        of(*types).feature_gates(known)


def test_a_plugin_may_use_a_gate_that_exists_already() -> None:
    assert of(Needy).feature_gates({"Unheard": BETA}) == {"Unheard": BETA}


def test_gates_of_a_broken_plugin_can_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    found = catalogue(Height="Height", Broken="Missing")
    with pytest.raises(ImportFailed):
        found.feature_gates({})
    assert list(found.feature_gates({}, skip_broken=True)) == ["Heights", "HeightsInFeet"]
    assert '"Broken"' in caplog.text


def test_errors_keep_their_kind_when_a_file_is_added() -> None:
    with pytest.raises(NotInstalled) as raised:
        of(Width).load("Depth", "profiles[0]")
    error = raised.value.under("scheduler.yaml")
    assert type(error) is NotInstalled
    assert str(error) == (
        'scheduler.yaml: profiles[0]: got "Depth", expected an installed plugin of entry point group '
        "koordpy.measuring; expected Width"
    )
