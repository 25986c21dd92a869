from typing import Any

from koordpy.agent.interface import Update
from koordpy_plugins.qos.cpusuppress.cpuset_writes import CHECK_SECONDS, CPUSetWrite, CPUSetWrites


class Recorder:
    """An executor for which a value is in place once it was requested."""

    def __init__(self):
        self.revision = 0
        self.requested: list[Update] = []
        self.in_place: dict[str, str] = {}

    def update_batch(self, updates, *, cached=True):
        for update in updates:
            self.requested.append(update)
            if self.in_place.get(update.directory) != update.value:
                self.in_place[update.directory] = update.value
                self.revision += 1

    def asked(self):
        found = [(each.value, each.directory, each.formula) for each in self.requested]
        self.requested.clear()
        return found


def test_sets_in_place_are_requested_again_only_now_and_then():
    executor: Any = Recorder()
    writes = CPUSetWrites(executor, "why")
    for now, formula, expected in (
        (0, "first", 2),  # written
        (1, "second", 2),  # in place
        (2, "third", 0),
        (CHECK_SECONDS, "fourth", 0),
        (1 + CHECK_SECONDS, "fifth", 2),
        (2 + CHECK_SECONDS, "sixth", 0),
    ):
        writes.request([CPUSetWrite("0-1", ["a", "a/b"], formula)], now)
        asked = executor.asked()
        assert [len(asked), {text for _, _, text in asked}] == [expected, {formula} if expected else set()]


def test_another_set_or_directory_is_requested_at_once():
    executor: Any = Recorder()
    writes = CPUSetWrites(executor, "why")
    for now in range(3):
        writes.request([CPUSetWrite("0-1", ["a"], "f")], now)
    executor.asked()
    writes.request([CPUSetWrite("0-2", ["a"], "g")], 3)
    assert executor.asked() == [("0-2", "a", "g")]
    for now in (4, 5):
        writes.request([CPUSetWrite("0-2", ["a"], "g")], now)
    executor.asked()
    writes.request([CPUSetWrite("0-2", ["a", "b"], "h")], 6)
    assert executor.asked() == [("0-2", "a", "h"), ("0-2", "b", "h")]


def test_all_sets_are_requested_after_anything_else_was_requested_of_the_executor():
    executor: Any = Recorder()
    writes = CPUSetWrites(executor, "why")
    for now in range(3):
        writes.request([CPUSetWrite("0-1", ["a"], "f")], now)
    executor.asked()
    executor.update_batch([Update("cpuset.cpus", "a", "7")])
    executor.asked()
    writes.request([CPUSetWrite("0-1", ["a"], "f")], 3)
    assert executor.asked() == [("0-1", "a", "f")]
