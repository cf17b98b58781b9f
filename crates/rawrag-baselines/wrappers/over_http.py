"""Puts a wrapper that speaks over standard streams behind HTTP: each request is posted to /, and the
reply's body is the response. One process a conversation, as `rawrag` itself starts them.

    python3 over_http.py PORT FOLDER COMMAND...      (PORT 0: any; the address is printed)
"""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

port, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
HELLO = {"call": "hello", "protocol": 1}


class Child:
    def __init__(self):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.description = self.ask(HELLO)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the wrapper ended with status {self.process.wait()}")
        return json.loads(line)


class Handler(BaseHTTPRequestHandler):
    child = None

    def do_POST(self):
        try:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            response, status = self.respond(request), 200
        except Exception as error:
            response, status = {"error": f"{type(error).__name__}: {error}"}, 500
        body = json.dumps(response).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def respond(self, request):
        if request["call"] == "hello":
            child = Child()
            child.process.kill()
            return child.description
        if request["call"] == "open":
            if Handler.child:
                Handler.child.process.kill()
            request["folder"] = os.path.join(folder, request["namespace"])
            os.makedirs(request["folder"], exist_ok=not request["fresh"])
            Handler.child = Child()
        response = Handler.child.ask(request)
        if request["call"] == "close":
            Handler.child = None
        return response

    def log_message(self, *arguments):
        pass


server = HTTPServer(("127.0.0.1", port), Handler)
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
