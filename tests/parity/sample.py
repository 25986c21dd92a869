"""`python -m tests.parity.sample FILE...`: keep some 200 lines of each file in `tests/parity/data`.

The lines are spread evenly over the tags and over the file, so the same file always gives the same sample.
Lines that the rule does not accept are left out. Exit status 2: a file has no rule.
"""

import gzip
import sys
from collections import defaultdict
from pathlib import Path

from .vectors import Line, Rule, UnknownRule, read, rule_name

SIZE = 200
DATA = Path(__file__).parent / "data"


def pick(lines: list[Line], size: int = SIZE) -> list[Line]:
    """Choose about `size` lines: the same number of every tag (rare tags leave their share to others)."""
    by_tag: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        by_tag[line.tag or ""].append(line)
    picked: list[Line] = []
    for left, group in zip(range(len(by_tag), 0, -1), sorted(by_tag.values(), key=len), strict=True):
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
        lines = pick([line for line in read(path) if rule.accepts(line)])
        DATA.mkdir(exist_ok=True)
        write(DATA / f"{rule.name}.jsonl.gz", lines)
        print(f"{rule.name}: kept {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
