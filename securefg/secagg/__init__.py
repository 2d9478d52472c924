"""Secure aggregation: the server learns a sum of uploads and no single one of them."""
