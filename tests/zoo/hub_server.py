"""A server on this machine that speaks the calls of the Hugging Face Hub by which entries are pushed and pulled."""

import base64
import contextlib
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class Hub:
    """Repositories in memory: files by path, for each name."""

    def __init__(self):
        self.repositories = {}
        self.requests = []
        self.address = ""

    def commit_of(self, name):
        content = json.dumps({path: hashlib.sha1(data).hexdigest() for path, data in self.repositories[name].items()})
        return hashlib.sha1(content.encode()).hexdigest()

    def tree(self, name):
        files = self.repositories[name].items()
        return [
            {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            for path, content in files
        ]

    def create(self, asked):
        name = "/".join(part for part in (asked.get("organization"), asked["name"]) if part)
        self.repositories.setdefault(name, {})
        return {"url": f"{self.address}/{name}", "name": name}

    def commit(self, name, lines):
        for line in lines[1:]:
            assert line["key"] == "file" and line["value"]["encoding"] == "base64", line["key"]
            self.repositories[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        oid = self.commit_of(name)
        return {"commitUrl": f"{self.address}/{name}/commit/{oid}", "commitOid": oid, "success": True}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.hub.requests.append(f"{self.command} {self.path}")
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            return self.repository("/".join(parts[2:4]), self.hub.tree)
        if "resolve" in parts:
            return self.file("/".join(parts[:2]), "/".join(parts[4:]))
        return self.error(404, "EntryNotFound")

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self):
        self.hub.requests.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        name = "/".join(parts[2:4])
        if self.headers.get("Authorization") != "Bearer hf_of_the_test":
            return self.error(401, "Unauthorized")
        if parts[1:] == ["validate-yaml"]:  # of README.md
            return self.answer({"errors": [], "warnings": []})
        if parts[1:] == ["repos", "create"]:
            return self.answer(self.hub.create(json.loads(body)))
        if parts[4] == "preupload":
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self.answer({"files": files})
        if parts[4] == "commit":
            return self.answer(self.hub.commit(name, [json.loads(line) for line in body.splitlines()]))
        return self.error(404, "EntryNotFound")

    def file(self, name, path):
        content = self.hub.repositories[name].get(path)
        if content is None:
            return self.error(404, "EntryNotFound")
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": self.hub.commit_of(name)}
        return self.send(200, content, "application/octet-stream", headers)

    def repository(self, name, content):
        return self.answer(content(name)) if name in self.hub.repositories else self.error(404, "RepoNotFound")

    def answer(self, content):
        return self.send(200, json.dumps(content).encode(), "application/json", {})

    def error(self, status, code):
        message = {"X-Error-Code": code, "X-Error-Message": f"the server of the test says {code}"}
        return self.send(status, b"{}", "application/json", message)

    def send(self, status, content, kind, headers):
        self.send_response(status)
        for key, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextlib.contextmanager
def serve_hub():
    """Serve an empty Hub on the loopback and give it."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OfThisHub", (Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
