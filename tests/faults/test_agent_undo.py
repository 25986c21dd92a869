"""An agent that is killed at any moment, and damaged files: original values are never lost nor replaced."""

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koordpy.agent.cgroups.changes import Changes, ChangesError, Place
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.cgroups.pauses import Pause, Scope
from koordpy.agent.cgroups.undo import Undo, enable
from koordpy.agent.interface import CgroupError, Update
from koordpy.lib.clock import FakeClock

DIRECTORY = "kubepods/besteffort"
PAGE = 4096


class Killed(BaseException):
    """What kill -9 is to the code of this test: nothing after it runs."""


class Kernel(CgroupFiles):
    """Files whose limits of memory are rounded to pages; the agent can be killed before or after a write."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, Version.V1, proc_root=root / "proc", sys_root=root / "sys")
        self.kill: str | None = None

    def write(self, name: str, directory: str, text: str) -> None:
        self.die("before the file")
        rounds = name.startswith("memory.") and text.isdecimal()
        super().write(name, directory, str(int(text) // PAGE * PAGE) if rounds else text)
        self.die("after the file")

    def die(self, moment: str) -> None:
        if self.kill == moment:
            self.kill = None
            raise Killed


class Mortal(Changes):
    """Changes whose file is written by halves if the agent is killed then."""

    kernel: Kernel | None = None

    def _append(self, line: dict[str, object]) -> None:
        if self.kernel is not None and self.kernel.kill == "within the line":
            with open(f"{self.folder}/changes.jsonl", "ab") as file:
                text = json.dumps(line).encode()
                file.write(text[: len(text) // 2])
            self.kernel.die("within the line")
        super()._append(line)
        if self.kernel is not None:
            self.kernel.die("after the line")

    def _replace(self, name: str, content: str | bytes) -> int:
        if self.kernel is not None and self.kernel.kill == "within a rewrite":
            Path(f"{self.folder}/{name}.new").write_bytes(b"half")
            self.kernel.die("within a rewrite")
        return super()._replace(name, content)


class Agent:
    """One life of an agent."""

    def __init__(self, root: Path, kernel: Kernel) -> None:
        self.root, self.kernel = root, kernel
        place = Place(str(root), Version.V1.value, str(root / "proc"), str(root / "sys"))
        self.changes = Mortal(root / "changes", place, boot="1")
        self.changes.kernel = kernel
        self.executor = Executor(kernel, FakeClock(datetime(2026, 1, 1, tzinfo=UTC)), changes=self.changes)

    def end(self) -> None:
        self.changes.close()


ORIGINALS = {"cpu.cfs_quota_us": "-1", "memory.limit_in_bytes": str(1 << 30), "cpu.shares": "1024"}
VALUES = {
    "cpu.cfs_quota_us": st.sampled_from(["10000", "20000", "30000"]),
    "memory.limit_in_bytes": st.integers(1, 8).map(lambda number: str(number * 10_000_000 + 1)),
    "cpu.shares": st.sampled_from(["2", "4", "8"]),
}
MOMENTS = [None, "within the line", "after the line", "before the file", "after the file", "within a rewrite"]
STEP = st.sampled_from(list(ORIGINALS)).flatmap(
    lambda name: st.tuples(st.just(name), VALUES[name], st.sampled_from(MOMENTS))
)


def node(root: Path) -> Kernel:
    kernel = Kernel(root)
    for name, text in ORIGINALS.items():
        path = kernel.path(name, DIRECTORY)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return kernel


def texts(kernel: Kernel) -> dict[str, str]:
    return {name: kernel.read_raw(name, DIRECTORY) for name in ORIGINALS}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP, min_size=1, max_size=12))
def test_originals_survive_an_agent_that_is_killed_at_any_moment(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str | None]]
) -> None:
    root = tmp_path_factory.mktemp("node")
    kernel = node(root)
    agent = Agent(root, kernel)
    for name, value, moment in steps:
        kernel.kill = moment
        try:
            agent.executor.update(Update(name, DIRECTORY, value))
        except Killed:
            agent.end()
            agent = Agent(root, kernel)
        kernel.kill = None
    agent.end()
    command = Changes(root / "changes", boot="1")
    Undo(kernel, command).run(Pause(Scope.ALL))
    command.close()
    kernel.open_files.close()
    assert texts(kernel) == ORIGINALS


LINE = {
    "resource": "cpu.shares",
    "directory": DIRECTORY,
    "part": "",
    "original": "1024",
    "written": "2",
    "requested": "2",
    "plugin": "P",
    "reason": "",
    "formula": "",
    "first": 1.0,
    "last": 1.0,
    "identity": 0,
}
DAMAGED = {
    "nothing": b"",
    "no JSON": b"\x00\xff\x00garbage\n",
    "half a header": b'{"version": 1, "bo',
    "deep JSON": b"[" * 200_000 + b"\n",
    "another version": b'{"version": 99, "boot": "1"}\n' + json.dumps(LINE).encode() + b"\n",
    "a list": b"[1]\n",
    "a place of wrong types": b'{"version": 1, "boot": "1", "place": {"cgroup_root": 3}}\n',
    "lines that are none": b'{"version": 1, "boot": "1"}\n'
    + b'{"a": 1}\n[]\n3\nx\n{"forget": 3}\n{"forget": []}\n',
    "wrong types": b'{"version": 1, "boot": "1"}\n' + json.dumps({**LINE, "original": 5}).encode() + b"\n",
    "a path outside": b'{"version": 1, "boot": "1"}\n'
    + json.dumps({**LINE, "directory": "../../outside"}).encode()
    + b"\n",
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_of_changes_is_kept_aside_and_the_agent_works(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = node(tmp_path)
    folder = tmp_path / "changes"
    folder.mkdir()
    (folder / "changes.jsonl").write_bytes(DAMAGED[what])
    agent = Agent(tmp_path, kernel)
    assert agent.executor.update(Update("cpu.shares", DIRECTORY, "4"))
    assert [change.original for change in agent.changes] == ["1024"]
    agent.end()
    kept = folder / "changes.jsonl.set-aside"
    if what != "a place of wrong types":
        assert kept.read_bytes() == DAMAGED[what]
        assert "it is kept as changes.jsonl.set-aside" in caplog.text
    again = Agent(tmp_path, kernel)
    assert [change.original for change in again.changes] == ["1024"]
    again.end()


@pytest.mark.parametrize(
    "what", [b"", b"\xff", b"[" * 200_000, b"3", b"[]", b'{"pauses": 3}', b'{"pauses": [3]}']
)
def test_damaged_pauses_leave_everything_alone_until_it_is_enabled(tmp_path: Path, what: bytes) -> None:
    kernel = node(tmp_path)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes/pauses.json").write_bytes(what)
    agent = Agent(tmp_path, kernel)
    assert not agent.executor.update(Update("cpu.shares", DIRECTORY, "4"))
    assert texts(kernel) == ORIGINALS
    enable(agent.changes, Scope.ALL)
    agent.end()
    again = Agent(tmp_path, kernel)
    assert again.executor.update(Update("cpu.shares", DIRECTORY, "4"))
    again.end()


def test_a_full_disk_keeps_no_value_from_being_written_and_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = node(tmp_path)
    agent = Agent(tmp_path, kernel)
    agent.executor.update(Update("cpu.shares", DIRECTORY, "4"))

    def full(*_: object) -> int:
        raise ChangesError("cannot write changes.jsonl: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(agent.changes, "_append", full)
        patch.setattr(agent.changes, "_replace", full)
        assert agent.executor.update(Update("cpu.cfs_quota_us", DIRECTORY, "20000"))
        assert agent.executor.update(Update("cpu.shares", DIRECTORY, "8"))
    assert caplog.text.count("remembered in memory alone") == 1
    agent.executor.update(Update("memory.limit_in_bytes", DIRECTORY, str(1 << 20)))  # there is room again
    agent.end()
    Undo(kernel, Changes(tmp_path / "changes", boot="1")).run(Pause(Scope.ALL))
    assert texts(kernel) == ORIGINALS


def test_a_group_that_vanishes_between_two_writes_is_no_failure(tmp_path: Path) -> None:
    kernel = node(tmp_path)
    agent = Agent(tmp_path, kernel)
    for name in ORIGINALS:
        os.rename(kernel.path(name, DIRECTORY), tmp_path / name)
        with suppress(CgroupError):
            assert not agent.executor.update(Update(name, DIRECTORY, "2"))
    agent.executor.leveled_update_batch([[Update("cpu.cfs_quota_us", DIRECTORY, "20000")]])
    agent.executor.collect()
    assert len(agent.changes) == 0
    agent.end()
