"""Resources of nodes that the noderesource controller computes, a folder each."""
