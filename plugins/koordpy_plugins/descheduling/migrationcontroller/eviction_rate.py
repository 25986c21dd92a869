"""How fast jobs may evict pods: `evictQPS` and `evictBurst`.

Source: Koordinator, `pkg/descheduler/controllers/migration/evictor/interpreter.go`.
"""

from koordpy.lib.clock import Clock
from koordpy.lib.token_bucket import TokenBucket

from .args import MigrationControllerArgs


def eviction_rate(args: MigrationControllerArgs, clock: Clock) -> TokenBucket:
    """Return the bucket from which every eviction takes a token; it starts full."""
    return TokenBucket(args.evictions_per_second, args.evict_burst, clock)
