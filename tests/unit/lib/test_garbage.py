"""In processes of their own: what the collector does is a matter of the whole process."""

import subprocess
import sys

_MAKE = "kept = [[number] for number in range(150_000)]"
_COLLECTIONS = "sum(each['collections'] for each in gc.get_stats())"


def printed(*lines: str) -> str:
    program = "\n".join(["import gc", "from koordpy.lib import garbage", *lines])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def collections_while_objects_are_made(*before: str) -> int:
    return int(printed(*before, f"began = {_COLLECTIONS}", _MAKE, f"print({_COLLECTIONS} - began)"))


def test_many_objects_are_made_between_two_collections() -> None:
    assert collections_while_objects_are_made() > 100
    assert collections_while_objects_are_made("garbage.collect_seldom()") <= 1
    assert collections_while_objects_are_made("garbage.begin_listing()") == 0


def test_listed_objects_are_left_out_of_collections() -> None:
    lines = ("garbage.begin_listing()", _MAKE, "garbage.end_listing()", "print(gc.get_freeze_count())")
    assert int(printed(*lines)) > 150_000


def test_the_command_line_collects_seldom() -> None:
    lines = (
        "import sys",
        "from koordpy.cli import main",
        "sys.argv = ['koordpy', '--help']",
        "try: main()",
        "except SystemExit: print(gc.get_threshold()[0])",
    )
    assert printed(*lines).splitlines()[-1] == "200000"
