"""What kube-scheduler asks of its extender, and how it is answered: filter, prioritize, preempt, bind."""
