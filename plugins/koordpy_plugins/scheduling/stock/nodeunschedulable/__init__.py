"""NodeUnschedulable: cordoned nodes accept only pods that tolerate it."""
