"""Audits: what the attacks recover, beside what was promised."""
