from pathlib import Path

import pytest

from tests.mutants.modules import ModulesError, read

ROOT = Path(__file__).parents[3]


def write(folder: Path, source: str, tests: str = "tests/test_a.py") -> Path:
    (folder / "app" / "koordpy" / "lib").mkdir(parents=True)
    (folder / "app" / "koordpy" / "lib" / "clock.py").touch()
    (folder / "tests").mkdir()
    (folder / "tests" / "test_a.py").touch()
    path = folder / "pyproject.toml"
    path.write_text(f'[tool.koordpy.mutants]\na = {{ source = ["{source}"], tests = ["{tests}"] }}\n')
    return path


def test_all_listed_modules_and_tests_exist() -> None:
    for module in read(ROOT / "pyproject.toml").values():
        module.check(ROOT)
        assert module.source
        assert module.tests


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ("app/koordpy/lib/clock.py", "koordpy/lib/clock.py"),
        ("app/koordpy/lib", "koordpy/lib/*.py"),
    ],
)
def test_sources_are_named_as_they_are_imported(tmp_path: Path, source: str, pattern: str) -> None:
    module = read(write(tmp_path, source))["a"]
    module.check(tmp_path)
    assert module.patterns == [pattern]


def test_a_single_test_can_be_named(tmp_path: Path) -> None:
    module = read(write(tmp_path, "app/koordpy/lib", "tests/test_a.py::test_one[x]"))["a"]
    module.check(tmp_path)
    assert module.tests == ("tests/test_a.py::test_one[x]",)


@pytest.mark.parametrize(
    ("source", "tests", "message"),
    [
        ("app/koordpy/gone.py", "tests/test_a.py", "mutants.a: there is no app/koordpy/gone.py"),
        ("app/koordpy/lib", "tests/gone.py::test_one", "mutants.a: there is no tests/gone.py::test_one"),
        ("tests/test_a.py", "tests/test_a.py", "mutants.a: tests/test_a.py is not below app/koordpy or"),
    ],
)
def test_an_entry_that_names_what_is_not_there_is_an_error(
    tmp_path: Path, source: str, tests: str, message: str
) -> None:
    module = read(write(tmp_path, source, tests))["a"]
    with pytest.raises(ModulesError, match=message):
        module.check(tmp_path)


def test_an_entry_with_other_keys_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.koordpy.mutants]\na = { source = [] }\n")
    with pytest.raises(ModulesError, match=r"mutants\.a: expected source and tests, found source"):
        read(path)
