from datetime import timedelta

import pytest
from click.testing import CliRunner

from koordpy.agent.interface import FlagError, FlagSet, FlagValue
from koordpy.agent.interface.koordlets_flags import REFUSED
from koordpy.cli import cli


@pytest.fixture
def flags() -> FlagSet:
    declared = FlagSet()
    declared.declare("rounds", 3, "how many rounds")
    declared.declare("share", 0.5, "the remaining share")
    declared.declare("only-evict-by-api", False, "whether containers may be killed")
    declared.declare("root", "/sys", "where files are")
    declared.declare("cool-time", timedelta(seconds=4), "time between two evictions")
    return declared


def test_flags_have_their_defaults(flags: FlagSet) -> None:
    assert flags.integer("rounds") == 3
    assert flags.number("share") == 0.5
    assert flags.boolean("only-evict-by-api") is False
    assert flags.text("root") == "/sys"
    assert flags.duration("cool-time") == timedelta(seconds=4)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("rounds", 5, 5),
        ("rounds", "5", 5),
        ("share", 1, 1.0),
        ("rounds", "-0x10", -16),
        ("rounds", "1_000", 1000),
        ("share", "0.25", 0.25),
        ("share", "1_0e-1", 1.0),
        ("only-evict-by-api", True, True),
        ("only-evict-by-api", "true", True),
        ("only-evict-by-api", "False", False),
        ("only-evict-by-api", "1", True),
        ("only-evict-by-api", "F", False),
        ("root", "/host/sys", "/host/sys"),
        ("cool-time", "1m30s", timedelta(seconds=90)),
        ("cool-time", 2, timedelta(seconds=2)),
        ("cool-time", -0.5, timedelta(milliseconds=-500)),
    ],
)
def test_a_value_is_read_as_the_flags_type(
    flags: FlagSet, name: str, given: FlagValue, value: FlagValue
) -> None:
    flags.set(name, given)
    assert flags.values[name] == value
    assert type(flags.values[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("rounds", "many", "flag rounds: got 'many', expected int"),
        ("rounds", 2.5, "flag rounds: got 2.5, expected int"),
        ("rounds", 1 << 63, "flag rounds: got 9223372036854775808, expected int"),
        ("rounds", str(1 << 63), "flag rounds: got '9223372036854775808', expected int"),
        ("rounds", " 5", "flag rounds: got ' 5', expected int"),
        ("rounds", "9" * 5000, "flag rounds: got '9+[.]{3}9+', expected int"),
        ("rounds", True, "flag rounds: got True, expected int"),
        ("share", 10**400, "flag share: got 1000.*, expected float"),
        ("share", "half", "flag share: got 'half', expected float"),
        ("only-evict-by-api", 1, "flag only-evict-by-api: got 1, expected bool"),
        ("only-evict-by-api", "yes", "flag only-evict-by-api: got 'yes', expected bool"),
        ("root", 5, "flag root: got 5, expected str"),
        ("cool-time", "soon", "flag cool-time: got 'soon', expected duration, such as 90s or 1h30m"),
        ("cool-time", 1e300, "flag cool-time: got 1e[+]300, expected duration"),
        ("cool-time", float("nan"), "flag cool-time: got nan, expected duration"),
        ("cool-time", 10**400, "flag cool-time: got 1000.*, expected duration"),
        ("cool-time", True, "flag cool-time: got True, expected duration"),
        (
            "pprof-addr",
            ":9317",
            "the flag --pprof-addr of koordlet is refused: profiles",
        ),
        ("round", 1, "unknown flag 'round'; did you mean rounds\\?"),
    ],
)
def test_a_wrong_value_is_named(flags: FlagSet, name: str, given: FlagValue, message: str) -> None:
    with pytest.raises(FlagError, match=message):
        flags.set(name, given)


def test_a_flag_is_read_by_its_type(flags: FlagSet) -> None:
    with pytest.raises(FlagError, match="flag share is no int"):
        flags.integer("share")
    with pytest.raises(FlagError, match="'nothing' was not declared"):
        flags.integer("nothing")


def test_two_plugins_may_share_a_flag_with_one_default(flags: FlagSet) -> None:
    flags.declare("rounds", 3, "rounds of another plugin")
    with pytest.raises(FlagError, match="flag rounds is declared twice, with defaults 3 and 4"):
        flags.declare("rounds", 4, "more rounds")


def test_a_flag_is_named_as_on_a_command_line() -> None:
    with pytest.raises(FlagError, match="'Cool_Time': expected lower case words joined by hyphens"):
        FlagSet().declare("Cool_Time", 1, "")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_koordlets_flags_are_accepted_or_refused_with_a_sentence(name: str) -> None:
    result = CliRunner().invoke(cli, ["agent", f"--{name}=1"])
    assert result.exit_code != 0
    message = str(result.exception) + result.output
    assert f"the flag --{name} of koordlet is refused: {REFUSED[name]}" in message


def test_flags_may_have_one_hyphen_as_in_the_manifests_of_koordlet() -> None:
    result = CliRunner().invoke(cli, ["agent", "-cpu-evict-cool-time-seconds=soon"])
    assert (
        "flag cpu-evict-cool-time-seconds: got 'soon', expected int" in str(result.exception) + result.output
    )
    result = CliRunner().invoke(cli, ["agent", "-addr=:9316"])
    assert "the flag --addr of koordlet is refused" in str(result.exception) + result.output
