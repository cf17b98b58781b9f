"""What the wrappers of services share: JSON over HTTP that fails loudly, an identity of each
conversation's own, dates as services take them, and readiness by asking again.
"""

import json
import os
import time
import urllib.error
import urllib.request
import uuid

from rawrag_wrapper import read_instant, require

# Every service's settings; on the command line they come as text.
SETTINGS = {
    "address": None,
    "authorization": "Bearer",  # what stands before the key, if RAWRAG_API_KEY holds one
    "timeout": 300.0,  # seconds a request may take
    "poll": 1.0,  # seconds between two questions whether it is ready
    "wait": 1800.0,  # seconds after which what is not ready is an error
}


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


class Service:
    """A service at an address; every reply but a JSON object with a status of success is an error."""

    def __init__(self, address, scheme, timeout):
        self.address, self.timeout = address.rstrip("/"), timeout
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)
        key = os.environ.get("RAWRAG_API_KEY")
        self.headers = {"content-type": "application/json", "accept": "application/json"}
        if key:
            self.headers["authorization"] = f"{scheme} {key}".strip()

    def call(self, method, path, body=None):
        what = f"{method} {self.address}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data=data, headers=self.headers, method=method)
        try:
            with self.opener.open(request, timeout=self.timeout) as reply:
                text = reply.read().decode()
        except urllib.error.HTTPError as error:
            said = error.read(300).decode(errors="replace")
            raise RuntimeError(f"{what}: status {error.code}: {said}") from None
        except OSError as error:
            raise RuntimeError(f"{what}: {error}") from None
        try:
            answer = json.loads(text)
        except ValueError:
            raise RuntimeError(f"{what}: the reply is no JSON: {text[:120]!r}") from None
        return Answer(what, answer)


class Answer:
    """A reply, whose fields are asked for by path: one that is missing or of another kind is an error."""

    def __init__(self, what, value):
        self.what, self.value = what, value
        if not isinstance(value, dict):
            raise RuntimeError(f"{what}: the reply is no object: {str(value)[:120]!r}")

    def field(self, kind, *path):
        value = self.value
        for depth, name in enumerate(path):
            if not isinstance(value, dict) or name not in value:
                shown = ".".join(path[: depth + 1])
                raise RuntimeError(f"{self.what}: the reply has no `{shown}`: {str(self.value)[:160]!r}")
            value = value[name]
        if not isinstance(value, kind):
            raise RuntimeError(f"{self.what}: `{'.'.join(path)}` is {str(value)[:80]!r}, which is no {kind.__name__}")
        return value


class ServiceSystem:
    """The calls of the protocol that are alike for every service."""

    settings = {}

    def hello(self, request):
        if request["protocol"] != 1:
            raise ValueError(f"protocol {request['protocol']} is not spoken here, 1 is")
        return self.description

    def open(self, request):
        self.options = require(request["settings"], {**SETTINGS, **self.settings})
        address = self.options["address"]
        if not address:
            name = self.description["name"]
            raise ValueError(f"{name} needs its service's address: --setting address=URL, or under [memory.settings]")
        for name, default in {**SETTINGS, **self.settings}.items():
            if isinstance(default, float):
                self.options[name] = float(self.options[name])
        self.service = Service(address, self.options["authorization"], self.options["timeout"])
        self.kept = os.path.join(request["folder"], "conversation.json")
        if request["fresh"]:
            # A service outlives runs: a name that was never used keeps their conversations apart.
            self.state = {"identity": f"rawrag-{uuid.uuid4().hex}", "origin": {}, "dates": {}}
        else:
            with open(self.kept, encoding="utf-8") as file:
                self.state = json.load(file)
        self.identity, self.origin = self.state["identity"], self.state["origin"]
        perspectives = self.begin(request)
        self.keep()
        return {"perspectives": perspectives}

    def keep(self):
        with open(self.kept, "w", encoding="utf-8") as file:
            json.dump(self.state, file)

    def ready(self, request):
        self.settle()
        self.keep()
        return {}

    def until(self, ready, what):
        """Asks `ready` until it says yes."""
        begun = time.monotonic()
        while not ready():
            if time.monotonic() - begun > self.options["wait"]:
                raise RuntimeError(f"{what} after {self.options['wait']} seconds")
            time.sleep(self.options["poll"])

    def came_from(self, identity, messages):
        """Keeps which messages an object of the service comes from."""
        dates = [message["date"] for message in messages if message["date"]]
        positions = [message["position"] for message in messages]
        self.origin[identity] = {"messages": positions, "date": max(dates, default=None)}

    def where_from(self, identity):
        return self.origin.get(identity, {"messages": None, "date": None})

    def most(self, found, k, what):
        if len(found) > k:
            raise RuntimeError(f"{len(found)} {what} were returned where {k} were asked for")
        return found

    def decisions(self, request):
        return {"decisions": []}

    def usage(self, request):
        return {}  # what a service spends on models, only it knows

    def close(self, request):
        self.keep()
        return {}


def instant(date):
    """A date as services take it, in ISO 8601 with an offset: a local time is given as UTC."""
    return read_instant(date).isoformat()


def shown(date, text):
    return f"[{date or 'unknown date'}] {text}"


def content(message):
    """What was said, with the captions of images."""
    return message["text"] + "".join(f" [image: {caption}]" for caption in message["captions"])
