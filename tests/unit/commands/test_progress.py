import io

from rich.console import Console

from koordpy.commands.progress import Progress, lasting


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(*, quiet: bool = False, runs: int = 1) -> tuple[Progress, Seconds, io.StringIO]:
    text, seconds = io.StringIO(), Seconds()
    return Progress(runs, quiet=quiet, to=Console(file=text), seconds=seconds), seconds, text


def test_lines_say_share_position_and_time_left_every_ten_seconds() -> None:
    progress, seconds, text = shown()
    with progress:
        show = progress.run("small")
        for now in (0.0, 5.0, 10.0, 15.0, 20.0):
            seconds.now = now
            show(now / 40, f"{now:.0f} min of 40 min simulated")
    assert text.getvalue().splitlines() == [
        "small: 25%, 10 min of 40 min simulated, about 30 s left",
        "small: 50%, 20 min of 40 min simulated, about 20 s left",
    ]


def test_several_runs_count_together() -> None:
    progress, seconds, text = shown(runs=2)
    with progress:
        progress.run("one")(1.0, "done")
        second = progress.run("other")
        seconds.now = 15.0
        second(0.5, "half")
    assert text.getvalue().splitlines() == ["other (2 of 2): 75%, half, about 5 s left"]


def test_nothing_is_shown_without_a_terminal_where_output_is_for_programs() -> None:
    progress, seconds, text = shown(quiet=True)
    with progress:
        show = progress.run("small")
        seconds.now = 60.0
        show(0.5, "half")
    assert text.getvalue() == ""


def test_a_terminal_has_a_bar() -> None:
    text = io.StringIO()
    to = Console(file=text, force_terminal=True, width=120, color_system=None)
    with Progress(quiet=True, to=to) as progress:
        progress.run("small")(0.5, "1 h of 2 h simulated")
        progress._bar.refresh()
    assert "50%" in text.getvalue()
    assert "1 h of 2 h simulated" in text.getvalue()


def test_durations_have_a_suitable_unit() -> None:
    assert [lasting(value) for value in (8, 90, 7200, 259200)] == ["8 s", "1.5 min", "2 h", "3 d"]
