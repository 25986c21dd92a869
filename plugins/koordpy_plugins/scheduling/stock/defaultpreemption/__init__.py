"""DefaultPreemption: a pod that fits nowhere takes the place of less important ones."""
