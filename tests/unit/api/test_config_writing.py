from typing import Annotated

from koordpy.api.config_model import ConfigModel, Duration
from koordpy.api.config_writing import Written, written
from koordpy.lib import duration


class Part(ConfigModel):
    name: str = ""
    share: float = 0.5


class Whole(ConfigModel):
    wait_time: Duration = 90 * duration.SECOND
    on: bool = False
    off: Annotated[bool, Written(empty=False)] = False
    count: Annotated[int, Written(empty=False)] = 0
    text: str = ""
    pointer: Annotated[str | None, Written(empty=True)] = None
    part: Part | None = None
    parts: list[Part] = []
    percent: dict[str, float] = {}
    all_percent: Annotated[dict[str, float] | None, Written(empty=True)] = None


def test_empty_fields_are_left_out_but_false() -> None:
    assert written(Whole()) == {"waitTime": "1m30s", "on": False}


def test_marked_fields_are_written_or_not() -> None:
    made = Whole(off=True, count=2, pointer="", all_percent={})
    assert written(made) == {
        "waitTime": "1m30s",
        "on": False,
        "off": True,
        "count": 2,
        "pointer": "",
        "allPercent": {},
    }


def test_models_inside_are_written_even_if_they_are_empty() -> None:
    made = Whole(part=Part(share=2.0), parts=[Part(), Part(name="x")], percent={"cpu": 0.25, "memory": 3.0})
    document = written(made)
    assert document["part"] == {"share": 2}
    assert document["parts"] == [{"share": 0.5}, {"name": "x", "share": 0.5}]
    assert document["percent"] == {"cpu": 0.25, "memory": 3}
    assert isinstance(document["percent"]["memory"], int)
