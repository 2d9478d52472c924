"""The answer of an audit: who learns what, how we know, and what would change it."""
