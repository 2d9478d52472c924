"""Rehearsals: active attacks on throw-away federations of real clients."""
