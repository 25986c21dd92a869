"""Makes room for a pod that fits nowhere by evicting less important pods.

Shared by the plugins that preempt: which nodes may help (`evaluator`), the victims on each (`dry_run`), the
choice of a node (`choice`), calls to extenders (`extenders`), and the eviction (`executor`). What-ifs for
pods that are placed together have `hypothetical_nodes`. Source of the rules: Kubernetes,
`pkg/scheduler/framework/preemption` and `framework/plugins/defaultpreemption` (release 1.35).
"""

from koordpy.scheduling.framework.metrics import PREEMPTION_ATTEMPTS

from .budgets import Budgets
from .dry_run import DryRun, Findings, Limit
from .evaluator import STILL_TERMINATING, Evaluator, Rules, is_preempted
from .executor import AT_ONCE, Evicted, Executor, clear_nominations, nominate
from .hypothetical_nodes import HypotheticalNodes, Preparation, Prepared
from .importance import by_importance, priority_of

__all__ = [
    "AT_ONCE",
    "PREEMPTION_ATTEMPTS",
    "STILL_TERMINATING",
    "Budgets",
    "DryRun",
    "Evaluator",
    "Evicted",
    "Executor",
    "Findings",
    "HypotheticalNodes",
    "Limit",
    "Preparation",
    "Prepared",
    "Rules",
    "by_importance",
    "clear_nominations",
    "is_preempted",
    "nominate",
    "priority_of",
]
