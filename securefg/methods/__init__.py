"""The methods: one file each, read top to bottom in its paper's order."""
