"""`python -m bench [NAME...]`: run benchmarks, keep results, put the tables into the documentation."""

import argparse
import importlib
import sys
import time

from bench.report import Result

NAMES = ("admission", "extender", "direct", "client", "cluster", "controlplane", "simulation")


def main() -> int:
    """Run what was asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all by default")
    parser.add_argument("--rounds", type=int, help="how often each figure is taken")
    parser.add_argument("--dry-run", action="store_true", help="show the tables, keep nothing")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    for name in options.names or NAMES:
        started = time.monotonic()
        arguments = {} if options.rounds is None else {"rounds": options.rounds}
        result: Result = importlib.import_module(f"bench.{name}").run(**arguments)
        if not options.dry_run:
            result.save()
        print(f"\n## {name} ({time.monotonic() - started:.0f} s)\n\n{result.markdown()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
