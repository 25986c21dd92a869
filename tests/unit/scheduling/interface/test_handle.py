"""What a handle refuses."""

import pytest

from koordpy.scheduling.interface.handle import Handle

from ..worlds import framework, world


def test_a_handle_belongs_to_one_framework() -> None:
    handle: Handle = framework(world([])).handle
    before = handle.framework
    other = framework(world([]))
    with pytest.raises(RuntimeError, match="framework"):
        handle.attach(other)
    assert handle.framework is before
