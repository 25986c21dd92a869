"""DefaultPreemption: an unschedulable pod preempts less important ones."""
