"""Other projects' defences as callables for `securefg audit mechanism`."""
