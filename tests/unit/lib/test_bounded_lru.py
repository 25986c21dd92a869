from koordpy.lib import byte_budget
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.lib.bounded_records import BoundedRecords


def test_the_least_recently_used_entries_go_first():
    dropped = []
    lru: BoundedLru[str, int] = BoundedLru("test_lru", 80, dropped=lambda key, value: dropped.append(key))
    for number, key in enumerate("abcdefgh"):
        assert lru.put(key, number, 10)
    assert lru.get("a") == 0
    assert lru.put("i", 8, 10)
    assert dropped == ["b"]
    assert lru.peek("b") is None
    assert list(lru) == [2, 3, 4, 5, 6, 7, 0, 8]


def test_an_entry_that_is_too_large_is_not_kept():
    lru: BoundedLru[str, int] = BoundedLru("test_lru_large", 80)
    assert lru.put("a", 1, 10)
    assert not lru.put("a", 2, 11)
    assert lru.get("a") is None
    assert byte_budget.usage()["test_lru_large"].held == 0


def test_a_growing_entry_pushes_others_out():
    lru: BoundedLru[str, int] = BoundedLru("test_lru_growth", 80)
    for key in "abcdefgh":
        lru.put(key, 0, 10)
    lru.resize("h", 35)
    assert [key for key in "abcdefgh" if key in lru] == ["d", "e", "f", "g", "h"]
    assert byte_budget.usage()["test_lru_growth"].held == 75
    lru.resize("unknown", 50)
    assert lru.pop("h") == 0
    lru.clear()
    assert byte_budget.usage()["test_lru_growth"] == byte_budget.Usage(0, 0, 80)


def test_the_number_of_entries_can_be_limited_too():
    lru: BoundedLru[int, int] = BoundedLru("test_lru_number", 1000, max_entries=2)
    for key in range(5):
        lru.put(key, key, 1)
    assert list(lru) == [3, 4]


def test_the_oldest_records_go_first():
    records: BoundedRecords[str] = BoundedRecords("test_records", 100, 4)
    for name in "abcdef":
        records.append(name, 10)
    assert list(records) == ["c", "d", "e", "f"]
    records.append("large", 95)
    assert list(reversed(records)) == ["large"]
    records.append("huge", 5000)
    assert list(records) == ["huge"]
    assert byte_budget.usage()["test_records"].held == 5000
