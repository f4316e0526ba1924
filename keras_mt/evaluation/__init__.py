"""Measuring translations: sacreBLEU's scores and tests, and the terms that are kept."""
