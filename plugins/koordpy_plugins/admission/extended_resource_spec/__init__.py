"""Write the batch resources of a pod's containers into the annotation that node agents read."""
