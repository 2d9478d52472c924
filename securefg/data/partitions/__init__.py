"""One file per scheme of dealing nodes to clients: its settings and its `draw`."""
