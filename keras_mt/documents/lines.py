"""Lines of text, in parts."""
