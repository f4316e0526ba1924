"""The version, readable without importing anything."""

__version__ = "0.4.0.dev0"
