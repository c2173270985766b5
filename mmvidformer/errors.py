"""The error of a user's mistake, below all rooms."""


class UserError(ValueError):
    """Its message says all that a user needs: the tools print it without traceback, at any time.

    All else that is raised is a bug, and keeps its traceback.
    """
