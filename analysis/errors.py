"""The exception that a user's mistake raises."""


class AnalysisError(Exception):
    """Says in one line what was named, what was expected, what was found and what to do."""
