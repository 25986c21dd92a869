"""Let only listed users bind pods to nodes."""
