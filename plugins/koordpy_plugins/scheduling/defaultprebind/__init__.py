"""DefaultPreBind: the last look at the pod before its annotations and its node are written."""
