"""A changed configuration file is applied to the affected plugins, or refused as a whole."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from koordpy.agent.engine.reloading import Desired, ReloadError, Reloading, refuse_what_needs_a_restart
from koordpy.lib.clock import FakeClock
from tests.unit.agent.test_agent import Greeter, Node1, Reloaded, until

FREE: dict[str, Any] = {"flags": {"f"}, "gates": {"G"}, "args": {"P"}}


class File:
    """A configuration file whose text is the value of the flag `words`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.applied: list[str] = []
        path.write_text("first")
        clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.reloading = Reloading(path, self.load, self.apply, clock=clock)

    def load(self) -> Desired:
        text = self.path.read_text()
        if text.startswith("bad"):
            raise ValueError(f"{self.path}: words: got {text!r}")
        return Desired(flags={"words": text})

    async def apply(self, old: Desired, new: Desired) -> list[str]:
        self.applied.append(f"{old.flags['words']} > {new.flags['words']}")
        return ["Greeter"]


async def test_a_file_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    file = File(tmp_path / "koordpy.yaml")
    await file.reloading.check()
    assert file.applied == []
    assert file.reloading.last == {}


async def test_a_changed_file_is_applied_once(tmp_path: Path) -> None:
    file = File(tmp_path / "koordpy.yaml")
    file.path.write_text("the second")
    await file.reloading.check()
    await file.reloading.check()
    assert file.applied == ["first > the second"]
    assert file.reloading.last["result"] == "applied"
    assert file.reloading.last["plugins"] == ["Greeter"]


async def test_an_invalid_file_is_refused_and_the_next_valid_one_follows_the_old(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = File(tmp_path / "koordpy.yaml")
    file.path.write_text("bad words")
    await file.reloading.check()
    assert file.reloading.last["result"] == "refused"
    assert "words: got 'bad words'" in str(file.reloading.last["message"])
    assert "the old configuration stays in force" in caplog.text
    file.path.write_text("good words")
    await file.reloading.check()
    assert file.applied == ["first > good words"]


async def test_a_file_that_is_exchanged_by_a_link_is_noticed(tmp_path: Path) -> None:
    """As the kubelet does with the files of a ConfigMap."""
    (tmp_path / "a").write_text("same")
    (tmp_path / "b").write_text("same")
    link = tmp_path / "koordpy.yaml"
    file = File(link)
    link.unlink()
    link.symlink_to("a")
    await file.reloading.check()
    link.unlink()
    link.symlink_to("b")
    await file.reloading.check()
    assert file.applied == ["first > same", "same > same"]


@pytest.mark.parametrize(
    ("new", "names"),
    [
        (Desired(flags={"other": 1}), "agent.flags.other"),
        (Desired(args={"Q": {"a": 1}}), "agent.args.Q"),
        (Desired(gates={"H": True}), "featureGates.H"),
        (Desired(rest={"agent.nodeName": "n2"}), "agent.nodeName"),
    ],
)
def test_what_needs_a_restart_is_refused_by_name(new: Desired, names: str) -> None:
    with pytest.raises(ReloadError, match=f"after a restart of the agent: {names}$"):
        refuse_what_needs_a_restart(Desired(), new, **FREE)


def test_what_plugins_have_needs_no_restart() -> None:
    refuse_what_needs_a_restart(Desired(), Desired({"f": 1}, {"P": {"a": 1}}, {"G": True}), **FREE)


async def test_the_agent_exchanges_plugins_whose_gate_flags_or_arguments_change(tmp_path: Path) -> None:
    node = Node1(tmp_path, Greeter, Reloaded)
    node.sync()
    node.agent.setup()
    running = asyncio.create_task(node.agent.run())
    await until(lambda: node.agent.running == ["Greeter"])
    old = Desired()
    enabled = Desired(gates={"Reloading": True})
    assert await node.agent.apply(old, enabled) == ["Reloaded"]
    assert node.agent.running == ["Greeter", "Reloaded"]
    with pytest.raises(ValueError, match="unknown flag 'no-such'"):
        await node.agent.apply(enabled, Desired(flags={"no-such": 1}))
    with pytest.raises(Exception, match=r"agent\.args\.Greeter\.loud: got 3"):
        await node.agent.apply(enabled, Desired(args={"Greeter": {"loud": 3}}))
    assert node.agent.running == ["Greeter", "Reloaded"]
    assert await node.agent.apply(enabled, Desired()) == ["Reloaded"]
    assert node.agent.running == ["Greeter"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
