"""`python -m tests.parity.sample FILE...`: keep some 200 lines of each file in `tests/parity/data`.

The lines are spread evenly over the tags (or the groups that the rule makes) and over the file, so the same
file always gives the same sample. Lines that the rule does not accept are left out. Exit status 2: a file has
no rule.
"""

import gzip
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from .vectors import Line, Rule, UnknownRule, read, rule_name

SIZE = 200
DATA = Path(__file__).parent / "data"


def pick(lines: list[Line], size: int = SIZE, group_of: Callable[[Line], str] | None = None) -> list[Line]:
    """Choose about `size` lines: the same number of every group (small ones leave their share to others)."""
    groups: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        groups[group_of(line) if group_of else line.tag or ""].append(line)
    picked: list[Line] = []
    for left, group in zip(range(len(groups), 0, -1), sorted(groups.values(), key=len), strict=True):
        share = min(len(group), max(1, (size - len(picked)) // left))
        picked.extend(group[index * len(group) // share] for index in range(share))
    return sorted(picked, key=lambda line: line.number)


def write(path: Path, lines: list[Line]) -> None:
    """Write a compressed file whose bytes depend on nothing but the lines."""
    text = "".join(f"{line.text}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: python -m tests.parity.sample FILE...", file=sys.stderr)
        return 2
    for path in map(Path, arguments):
        try:
            rule = Rule(rule_name(path))
        except UnknownRule as error:
            print(error, file=sys.stderr)
            return 2
        lines = pick([line for line in read(path) if rule.accepts(line)], SIZE, rule.group)
        DATA.mkdir(exist_ok=True)
        write(DATA / f"{rule.name}.jsonl.gz", lines)
        print(f"{rule.name}: kept {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
