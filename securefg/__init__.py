"""Federated graph learning whose privacy is measured, not claimed."""

__version__ = "0.1.0"
