"""What huggingface_hub asks of the Hugging Face hub, answered for folders on this machine."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class StandInHub(ThreadingHTTPServer):
    """Serves each folder of a folder as the model `someone/NAME`.

    Those whose names are in `gated` list their files and give none of them away.
    """

    def __init__(self, folder: Path, gated: tuple[str, ...] = ()) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.gated = folder, gated
        self.served: list[str] = []  # Paths of files, as they are fetched.
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            parts = parts[2:]
        owner, name, *rest = parts
        folder = self.server.folder / name
        files = {x.relative_to(folder).as_posix(): x for x in folder.rglob("*") if x.is_file()}
        if owner != "someone" or not folder.is_dir():
            # The hub does not say whether a name is unknown or private.
            self.answer(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif rest[:1] in ([], ["revision"]):
            model = {"id": f"{owner}/{name}", "sha": COMMIT}
            self.answer(200, json.dumps(model).encode())
        elif rest[0] == "tree":
            listed = [
                {"type": "file", "path": path, "size": file.stat().st_size, "oid": _hash(file)}
                for path, file in files.items()
            ]
            self.answer(200, json.dumps(listed).encode())
        elif name in self.server.gated:
            self.answer(403, b"{}", {"X-Error-Code": "GatedRepo"})
        elif (path := "/".join(rest[2:])) not in files:
            self.answer(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        else:
            if self.command == "GET":
                self.server.served.append(path)
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_hash(files[path])}"'}
            self.answer(200, files[path].read_bytes(), headers)

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **dict(headers)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def _hash(file):
    return hashlib.sha1(file.read_bytes()).hexdigest()
