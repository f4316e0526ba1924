"""A server as a process: how it starts and ends."""

import requests
from served import serving


def test_it_is_ready_and_ends_with_0():
    with serving() as served:
        assert requests.get(f"{served.url}/ready").json() == {"ready": True, "waits_for": []}
        assert served.end() == 0
