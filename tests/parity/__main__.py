"""`python -m tests.parity FILE...`: run files of parity vectors; see `tests.parity.vectors`.

Prints one line a file and its first mismatches. Exit status: 0 all agree, 1 some mismatch, 2 a file cannot be
run (no rule of its name, or not readable).
"""

import logging
import sys
from pathlib import Path

from .vectors import Rule, UnknownRule, rule_name

SHOWN = 3


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: python -m tests.parity FILE...", file=sys.stderr)
        return 2
    status = 0
    for path in map(Path, arguments):
        try:
            result = Rule(rule_name(path)).run(path)
        except (UnknownRule, OSError, ValueError, KeyError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            status = 2
            continue
        print(result, flush=True)
        for mismatch in result.mismatches[:SHOWN]:
            print(f"{mismatch}\n")
        if result.mismatches:
            status = max(status, 1)
    return status


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # vectors are full of malformed objects, which koordpy warns of
    sys.exit(main(sys.argv[1:]))
