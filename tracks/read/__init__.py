"""Readers of files: a path → an array or text, or a ValueError that says what is wrong with it."""
