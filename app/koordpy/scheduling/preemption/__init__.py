"""Makes room for a pod that fits nowhere by evicting less important ones.

What plugins that preempt share: which nodes may help (`evaluator`), who would have to go there
(`dry_run`), which node is the least loss (`choice`), what extenders say to it (`extenders`), and the eviction
(`executor`). Source of the rules: Kubernetes, `pkg/scheduler/framework/preemption` and
`framework/plugins/defaultpreemption` (release 1.35).
"""

from .evaluator import Evaluator, Rules

__all__ = ["Evaluator", "Rules"]
