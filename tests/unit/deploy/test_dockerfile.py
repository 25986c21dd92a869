"""The Dockerfile, as far as it can be judged without building it; its one RUN step is tested end to end."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STEPS = [
    (line.split(maxsplit=1)[0], line.split(maxsplit=1)[1])
    for line in (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]


def steps(instruction: str) -> list[str]:
    return [rest for name, rest in STEPS if name == instruction]


def final() -> list[tuple[str, str]]:
    """The steps of the last stage, which is the image."""
    start = max(index for index, (name, _) in enumerate(STEPS) if name == "FROM")
    return STEPS[start:]


COPIED = [source for rest in steps("COPY") if not rest.startswith("--from") for source in rest.split()[:-1]]


@pytest.mark.parametrize("source", COPIED)
def test_what_is_copied_exists(source: str) -> None:
    assert (ROOT / source).exists()


def test_everything_that_the_wheel_is_made_of_is_copied() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    packages = re.search(r"^packages = (\[.*\])$", text, re.MULTILINE)
    included = re.findall(r'^"([\w/]+)" = "koordpy/', text, re.MULTILINE)
    assert packages
    assert included
    for source in [*json.loads(packages[1]), *included, "pyproject.toml", "README.md", "LICENSE"]:
        assert any(source == copied or source.startswith(f"{copied}/") for copied in COPIED), source


def test_the_only_run_step_of_the_build_is_the_script_that_tests_run_too() -> None:
    build = STEPS[: len(STEPS) - len(final())]
    runs = [rest for name, rest in build if name == "RUN"]
    assert runs == ["/source/deploy/image/install.sh /source /opt/koordpy"]
    assert (ROOT / "deploy" / "image" / "install.sh").stat().st_mode & 0o111


def test_the_image_does_not_run_as_root() -> None:
    users = [rest for name, rest in final() if name == "USER"]
    assert len(users) == 1
    user, _, group = users[0].partition(":")
    assert int(user) > 0
    assert int(group) > 0


def test_the_image_has_a_health_check() -> None:
    checks = [rest for name, rest in final() if name == "HEALTHCHECK"]
    assert len(checks) == 1
    assert json.loads(checks[0].partition("CMD ")[2]) == ["koordpy", "health"]


def test_the_image_names_its_exact_version() -> None:
    for image in (rest.split()[0] for rest in steps("FROM")):
        assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", image), image


def test_the_image_has_no_pip() -> None:
    minor = re.match(r"python:(3\.\d+)", steps("FROM")[-1])
    assert minor
    [removal] = [rest for name, rest in final() if name == "RUN"]
    library = f"/usr/local/lib/python{minor[1]}"
    assert removal.split() == [
        *("rm", "-rf", f"{library}/site-packages/pip*", f"{library}/ensurepip", "/usr/local/bin/pip*")
    ]
    assert "--without-pip" in (ROOT / "deploy" / "image" / "install.sh").read_text()


def test_both_stages_have_the_same_python() -> None:
    images = [rest.split()[0] for rest in steps("FROM")]
    assert len(set(images)) == 1
    assert not images[0].endswith(":latest")
