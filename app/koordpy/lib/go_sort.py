"""Go's unstable sort, exactly: the same order of equal elements, and of any elements under an improper order.

Code that is compared with a Go program needs it where that program calls `sort.Sort` or `sort.Slice` with a
less function that is no strict weak order (one that calls equal elements less, say): then the result depends
on which elements are compared, in which order. For proper orders without ties `sorted` gives the same.

The algorithm is the pattern-defeating quicksort of Go's package `sort` (Go 1.19 and later): insertion sort up
to 12 elements, pivots by median of three or Tukey's ninther, heap sort after too many bad pivots. It uses no
random numbers.
"""

from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
Less = Callable[[T, T], bool]

_MAX_INSERTION: Final = 12
_SHORTEST_NINTHER: Final = 50
_SHORTEST_SHIFTING: Final = 50
_MAX_SHIFTS: Final = 5
_MAX_SWAPS: Final = 12
_MASK: Final = (1 << 64) - 1


def sort(items: list[T], less: Less[T]) -> None:
    """Sort a list in place by a less function, as `sort.Slice` and `sort.Sort` do."""
    count = len(items)
    _quicksort(items, less, 0, count, count.bit_length())


def _quicksort(items: list[T], less: Less[T], start: int, end: int, limit: int) -> None:
    """Sort a part; `limit` is how many bad pivots are allowed before heap sort takes over."""
    balanced = partitioned = True
    while True:
        length = end - start
        if length <= _MAX_INSERTION:
            _insertion_sort(items, less, start, end)
            return
        if limit == 0:
            _heap_sort(items, less, start, end)
            return
        if not balanced:
            _break_patterns(items, start, end)
            limit -= 1
        pivot, swaps = _choose_pivot(items, less, start, end)
        ascending = swaps == 0
        if swaps == _MAX_SWAPS:  # every comparison was out of order: the part is likely descending
            items[start:end] = items[start:end][::-1]
            pivot = (end - 1) - (pivot - start)
            ascending = True
        if balanced and partitioned and ascending and _nearly_sorted(items, less, start, end):
            return
        if start > 0 and not less(items[start - 1], items[pivot]):
            # The element before the part is not less than the pivot, so many may equal the pivot.
            start = _partition_equal(items, less, start, end, pivot)
            continue
        middle, partitioned = _partition(items, less, start, end, pivot)
        left, right = middle - start, end - middle
        if left < right:
            balanced = left >= length // 8
            _quicksort(items, less, start, middle, limit)
            start = middle + 1
        else:
            balanced = right >= length // 8
            _quicksort(items, less, middle + 1, end, limit)
            end = middle


def _insertion_sort(items: list[T], less: Less[T], start: int, end: int) -> None:
    for index in range(start + 1, end):
        at = index
        while at > start and less(items[at], items[at - 1]):
            items[at], items[at - 1] = items[at - 1], items[at]
            at -= 1


def _sift_down(items: list[T], less: Less[T], root: int, end: int, first: int) -> None:
    """Restore the heap below a root; indices are relative to `first`."""
    while (child := 2 * root + 1) < end:
        if child + 1 < end and less(items[first + child], items[first + child + 1]):
            child += 1
        if not less(items[first + root], items[first + child]):
            return
        items[first + root], items[first + child] = items[first + child], items[first + root]
        root = child


def _heap_sort(items: list[T], less: Less[T], start: int, end: int) -> None:
    length = end - start
    for root in range((length - 1) // 2, -1, -1):
        _sift_down(items, less, root, length, start)
    for last in range(length - 1, -1, -1):
        items[start], items[start + last] = items[start + last], items[start]
        _sift_down(items, less, 0, last, start)


def _partition(items: list[T], less: Less[T], start: int, end: int, pivot: int) -> tuple[int, bool]:
    """Move lesser elements before the pivot; return its place, and whether nothing else had to move."""
    items[start], items[pivot] = items[pivot], items[start]
    value = items[start]
    low, high = start + 1, end - 1
    untouched = True
    while True:
        while low <= high and less(items[low], value):
            low += 1
        while low <= high and not less(items[high], value):
            high -= 1
        if low > high:
            break
        untouched = False
        items[low], items[high] = items[high], items[low]
        low += 1
        high -= 1
    items[high], items[start] = items[start], items[high]
    return high, untouched


def _partition_equal(items: list[T], less: Less[T], start: int, end: int, pivot: int) -> int:
    """Move elements that equal the pivot to the front, given that none is less; return where they end."""
    items[start], items[pivot] = items[pivot], items[start]
    value = items[start]
    low, high = start + 1, end - 1
    while True:
        while low <= high and not less(value, items[low]):
            low += 1
        while low <= high and less(value, items[high]):
            high -= 1
        if low > high:
            return low
        items[low], items[high] = items[high], items[low]
        low += 1
        high -= 1


def _nearly_sorted(items: list[T], less: Less[T], start: int, end: int) -> bool:
    """Move a few elements that are out of place; return whether the part is sorted then."""
    at = start + 1
    for _ in range(_MAX_SHIFTS):
        while at < end and not less(items[at], items[at - 1]):
            at += 1
        if at == end:
            return True
        if end - start < _SHORTEST_SHIFTING:
            return False
        items[at], items[at - 1] = items[at - 1], items[at]
        if at - start >= 2:
            for back in range(at - 1, 0, -1):  # to the start of the whole list, as in Go
                if not less(items[back], items[back - 1]):
                    break
                items[back], items[back - 1] = items[back - 1], items[back]
        if end - at >= 2:
            for on in range(at + 1, end):
                if not less(items[on], items[on - 1]):
                    break
                items[on], items[on - 1] = items[on - 1], items[on]
    return False


def _break_patterns(items: list[T], start: int, end: int) -> None:
    """Swap three elements in the middle with pseudo-random ones (xorshift, seeded with the length)."""
    length = end - start
    if length < 8:
        return
    state = length
    mask = (1 << length.bit_length()) - 1
    middle = start + length // 4 * 2
    for at in range(middle - 1, middle + 2):
        state ^= state << 13 & _MASK
        state ^= state >> 7
        state ^= state << 17 & _MASK
        other = state & mask
        if other >= length:
            other -= length
        items[at], items[start + other] = items[start + other], items[at]


def _choose_pivot(items: list[T], less: Less[T], start: int, end: int) -> tuple[int, int]:
    """Return the index of the pivot and how many of the compared pairs were out of order."""
    quarter = (end - start) // 4
    low, middle, high = start + quarter, start + quarter * 2, start + quarter * 3
    swaps = 0
    if end - start >= _SHORTEST_NINTHER:
        low, swaps = _median(items, less, low - 1, low, low + 1, swaps)
        middle, swaps = _median(items, less, middle - 1, middle, middle + 1, swaps)
        high, swaps = _median(items, less, high - 1, high, high + 1, swaps)
    return _median(items, less, low, middle, high, swaps)


def _median(
    items: list[T], less: Less[T], first: int, second: int, third: int, swaps: int
) -> tuple[int, int]:
    """Return the index of the median of three elements, and `swaps` plus those that were needed."""
    if less(items[second], items[first]):
        first, second, swaps = second, first, swaps + 1
    if less(items[third], items[second]):
        second, third, swaps = third, second, swaps + 1
    if less(items[second], items[first]):
        first, second, swaps = second, first, swaps + 1
    return second, swaps
