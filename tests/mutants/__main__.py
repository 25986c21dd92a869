"""`python -m tests.mutants [MODULE...]`: put faults into critical modules; show those that no test notices.

Prints the differences of the mutants that survived, then a table. The modules and the tests that belong to
each are in `pyproject.toml`, under `tool.koordpy.mutants`. Needs `requirements/mutants.txt`.
"""

import argparse
import sys
import time
from pathlib import Path

from .modules import Module, ModulesError, read
from .runs import Result, Run, RunError

ROOT = Path(__file__).parents[2]
COLUMNS = ("module", "mutants", "killed", "timed out", "survived", "without a test", "minutes")


def main() -> int:
    """Run what was asked for, one module after the other. Exit status: 0, or 2 if some could not be."""
    try:
        modules = read(ROOT / "pyproject.toml")
    except ModulesError as error:
        print(error, file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"any of {', '.join(modules)}")
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants are tested at a time")
    parser.add_argument(
        "--survivors",
        action="store_true",
        help="test those again that survived the last run, with the tests of now",
    )
    options = parser.parse_args()
    unknown = set(options.modules) - set(modules)
    if unknown:
        parser.error(f"no module {', '.join(sorted(unknown))}; there are {', '.join(modules)}")
    status, results = 0, []
    for name in options.modules or modules:
        try:
            results.append(_run(modules[name], jobs=options.jobs, survivors=options.survivors))
        except (ModulesError, RunError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 2
    print(f"\n| {' | '.join(COLUMNS)} |\n|---|{'--:|' * (len(COLUMNS) - 1)}")
    for result in results:
        print(result)
    return status


def _run(module: Module, *, jobs: int, survivors: bool) -> Result:
    started = time.monotonic()
    module.check(ROOT)
    run = Run(ROOT, module)
    if survivors:
        run.repeat(jobs)
    else:
        run.begin(jobs)
    result = run.result(time.monotonic() - started)
    print(run.differences((*result.survived, *result.untested)), flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
