"""The calls of kube-scheduler to its extender, and their answers: filter, prioritize, preempt, bind."""
