"""Attacks on recorded transcripts: one file each, a view in, scores out."""
