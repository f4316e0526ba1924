"""The error that a request is answered with."""


class ApiError(Exception):
    """An HTTP status, what is wrong with the request, and headers of the answer."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}
