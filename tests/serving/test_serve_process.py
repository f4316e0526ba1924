"""A server as a process: how it starts and ends."""

import requests
from served import serving


def test_it_is_ready_and_ends_with_0_and_nothing_left(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serving() as served:
        assert requests.get(f"{served.url}/ready").json() == {"ready": True, "waits_for": []}
        book = {"file": ("a.txt", "A dog runs.\n" * 5000)}
        requests.post(f"{served.url}/v2/document", {"target_lang": "de"}, files=book)
        assert [*tmp_path.glob("**/file.txt")]
        assert served.end() == 0
    assert not [*tmp_path.iterdir()]
