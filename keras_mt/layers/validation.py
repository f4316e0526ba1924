"""Checks of constructor arguments, with messages that name the argument."""


def check_positive(**arguments):
    """Raises ValueError unless every keyword argument is a positive integer."""
    for name, value in arguments.items():
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise ValueError(f"{name} must be a positive integer. Received: {name}={value!r}")


def check_rate(**arguments):
    """Raises ValueError unless every keyword argument lies in 0 <= rate < 1."""
    for name, value in arguments.items():
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1. Received: {name}={value!r}")
