"""Settings of the extender whose values it interprets itself."""

from typing import Literal

NodeChoice = Literal["kube-scheduler", "koordpy"]
"""What chooses among the nodes that fit (`node_choice`)."""
