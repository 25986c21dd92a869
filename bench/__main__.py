"""`python -m bench [NAME...]`: run benchmarks, keep what they find, and show it in the documentation."""

import argparse
import importlib
import sys
import time

from bench import kept, pages
from bench.report import Result, table

NAMES = (
    "admission",
    "extender",
    "direct",
    "client",
    "cluster",
    "controlplane",
    "pod_kinds",
    "gangs",
    "gang_shapes",
    "quotas",
    "simulation",
    "loadaware",
    "hotspots",
    "fgd",
    "colocation",
    "descheduling",
    "agent",
    "metrics",
    "slo",
    "numa_merge",
    "numa_nodes",
    "audit",
)


def main() -> int:
    """Run what was asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all by default")
    parser.add_argument("--rounds", type=int, help="how often each figure is taken")
    parser.add_argument("--dry-run", action="store_true", help="show the tables, keep nothing")
    parser.add_argument(
        "--render", action="store_true", help="measure nothing; render the documentation from what is kept"
    )
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if not options.render:
        for name in options.names or NAMES:
            _run(name, options.rounds, keep=not options.dry_run)
    if not options.dry_run:
        for page in pages.render():
            print(f"rendered {page.relative_to(pages.ROOT)}")
    return 0


def _run(name: str, rounds: int | None, *, keep: bool) -> None:
    started = time.monotonic()
    arguments = {} if rounds is None else {"rounds": rounds}
    result: Result = importlib.import_module(f"bench.{name}").run(**arguments)
    if keep:
        kept.keep(result)
    print(f"\n## {name} ({time.monotonic() - started:.0f} s)\n\n{table([result])}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
