"""Makes room for a pod that fits nowhere by evicting less important pods.

Shared by the plugins that preempt: which nodes may help (`evaluator`), the victims on each (`dry_run`), the
choice of a node (`choice`), calls to extenders (`extenders`), and the eviction (`executor`). Source of the
rules: Kubernetes, `pkg/scheduler/framework/preemption` and `framework/plugins/defaultpreemption` (release
1.35).
"""

from .evaluator import Evaluator, Rules

__all__ = ["Evaluator", "Rules"]
