"""The settings of every shipped method, apart from its code: reading a config imports no torch."""
