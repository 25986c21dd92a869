"""DefaultPreBind: the last check of a pod before its annotations and its node are written."""
