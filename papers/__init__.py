"""Reproduction: a paper's tables and figures as data, run where missing, ours beside theirs."""
