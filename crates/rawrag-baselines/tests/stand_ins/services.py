"""A server of this project's own that answers as the public interfaces of MemOS, MemMachine and
EverMemOS say, for tests of their wrappers. It keeps what it is given and finds it by shared words.

    python3 services.py          (prints its address)

The first part of a path says how it behaves: /good, or /failing (status 500 for every search), /garbled
(a search replies what is no JSON), /renamed (a search replies other fields), /stuck (never ready),
/generous (more than was asked for). A request with a field that the interfaces do not have is refused.
"""

import json
import re
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

# The fields that a request must have, and those that it may have.
FIELDS = {
    "/product/add": (
        {"user_id", "writable_cube_ids", "messages"},
        {"session_id", "task_id", "async_mode", "mode", "custom_tags", "info", "chat_history", "is_feedback"},
    ),
    "/product/search": (
        {"query", "user_id"},
        {
            "readable_cube_ids", "mode", "session_id", "top_k", "relativity", "dedup", "pref_top_k",
            "include_preference", "search_tool_memory", "tool_mem_top_k", "include_skill_memory",
            "skill_mem_top_k", "filter", "internet_search", "threshold", "search_memory_type", "chat_history",
        },
    ),
    "/product/get_memory": (
        {"mem_cube_id"},
        {
            "user_id", "include_preference", "include_tool_memory", "include_skill_memory", "filter", "page",
            "page_size",
        },
    ),
    "/api/v2/projects": ({"org_id", "project_id"}, {"description", "config"}),
    "/api/v2/projects/get": ({"org_id", "project_id"}, set()),
    "/api/v2/projects/episode_count/get": ({"org_id", "project_id"}, set()),
    "/api/v2/memories": ({"org_id", "project_id", "messages"}, {"types"}),
    "/api/v2/memories/search": (
        {"org_id", "project_id", "query"},
        {"top_k", "filter", "set_metadata", "expand_context", "score_threshold", "types", "agent_mode"},
    ),
    "/api/v2/memories/list": (
        {"org_id", "project_id"},
        {"page_size", "page_num", "filter", "set_metadata", "type"},
    ),
    "/api/v1/memories": (
        {"message_id", "create_time", "sender", "content"},
        {"group_id", "group_name", "sender_name", "role", "refer_list", "flush"},
    ),
    "/api/v1/memories/search": (
        set(),
        {
            "query", "user_id", "group_id", "retrieve_method", "memory_types", "top_k", "start_time",
            "end_time", "radius", "include_metadata", "current_time",
        },
    ),
    "/api/v1/memories/conversation-meta": (
        {"version", "scene", "scene_desc", "name", "created_at"},
        {"description", "group_id", "default_timezone", "user_details", "tags"},
    ),
}
# How often a store is asked whether it is ready before it says yes.
UNREADY = 2

cubes, projects, groups = defaultdict(list), {}, defaultdict(list)
asked = defaultdict(int)
counter = 0


class Refused(Exception):
    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


def fresh_id(kind):
    global counter
    counter += 1
    return f"{kind}-{counter}"


def words(text):
    return set(re.findall(r"\w+|[^\w\s]", text.lower()))


def best(entries, query, k):
    """The k entries that share most words with the query, all of which share one."""
    scored = [(len(words(query) & words(entry["text"])), -at, entry) for at, entry in enumerate(entries)]
    scored = sorted((row for row in scored if row[0]), key=lambda row: row[:2], reverse=True)
    return [{**entry, "score": score / 10} for score, _, entry in scored[:k]]


def memos(behaviour, path, body, query):
    if path == "/product/add":
        added = []
        for message in body["messages"]:
            memory = {"id": fresh_id("memory"), "text": message["content"]}
            added.append({"memory": memory["text"], "memory_id": memory["id"], "memory_type": "LongTermMemory"})
            for cube in body["writable_cube_ids"]:
                cubes[cube].append(memory)
        return {"code": 200, "message": "Memory added successfully", "data": added}
    shown = lambda memory: {"id": memory["id"], "memory": memory["text"], "metadata": {"relativity": memory.get("score")}}
    if path == "/product/search":
        [cube] = body["readable_cube_ids"]
        k = body["top_k"] + 3 * (behaviour == "generous")
        found = [shown(memory) for memory in best(cubes[cube], body["query"], k)]
        text = [{"cube_id": cube, "memories": found, "total_nodes": len(found)}]
        return {"code": 200, "message": "Search completed successfully", "data": {"text_mem": text, "pref_mem": []}}
    kept = [shown(memory) for memory in cubes[body["mem_cube_id"]]]
    text = [{"cube_id": body["mem_cube_id"], "memories": kept, "total_nodes": len(kept)}]
    return {"code": 200, "message": "Memories retrieved successfully", "data": {"text_mem": text, "pref_mem": []}}


def memmachine(behaviour, path, body, query):
    name = body["project_id"]
    if path == "/api/v2/projects":
        if name in projects:
            raise Refused(409, "Project already exists")
        projects[name] = []
        return {"org_id": body["org_id"], "project_id": name, "description": "", "config": {}}
    if name not in projects:
        raise Refused(404, "Project does not exist")
    episodes = projects[name]
    if path == "/api/v2/memories":
        for message in body["messages"]:
            episodes.append({"id": fresh_id("episode"), "text": message["content"], **message})
        return {"results": [{"uid": episode["id"]} for episode in episodes[-len(body["messages"]) :]]}
    if path == "/api/v2/projects/episode_count/get":
        asked[name] += 1
        late = behaviour == "stuck" or asked[name] <= UNREADY
        return {"count": len(episodes) - late}
    entry = lambda episode: {
        "uid": episode["id"],
        "content": episode["content"],
        "producer_id": episode["producer"],
        "producer_role": episode["role"],
        "created_at": episode["timestamp"],
        "score": episode.get("score"),
    }
    feature = lambda episode: {
        "set_id": "set",
        "category": "profile",
        "tag": "said",
        "feature_name": episode["producer"],
        "value": episode["content"],
        "metadata": {"id": "f-" + episode["id"], "citations": [episode["id"]]},
    }
    if path == "/api/v2/memories/list":
        at = body.get("page_num", 0) * body["page_size"]
        page = episodes[at : at + body["page_size"]]
        shape = entry if body["type"] == "episodic" else feature
        return {"status": 0, "content": {f"{body['type']}_memory": [shape(episode) for episode in page]}}
    if path == "/api/v2/memories/search":
        k = body["top_k"] + 3 * (behaviour == "generous")
        found = best(episodes, body["query"], k)
        summary = [f"{len(episodes)} messages."] if episodes else []
        content = {
            "episodic_memory": {
                "long_term_memory": {"episodes": [entry(episode) for episode in found]},
                "short_term_memory": {
                    "episodes": [entry(episode) for episode in found[:1]],
                    "episode_summary": summary,
                },
            },
            "semantic_memory": [feature(episode) for episode in found],
        }
        return {"status": 0, "content": content}
    return {"org_id": body["org_id"], "project_id": name, "description": "", "config": {}}


def evermemos(behaviour, path, body, query):
    done = lambda result: {"status": "ok", "message": "done", "result": result}
    if path == "/api/v1/memories/conversation-meta":
        return done({"id": fresh_id("meta"), "group_id": body["group_id"]})
    shown = lambda memory: {
        "memory_type": "episodic_memory",
        "id": memory["id"],
        "user_id": memory["sender"],
        "group_id": memory["group_id"],
        "timestamp": memory["create_time"],
        "subject": memory["sender_name"],
        "episode": memory["content"],
    }
    if path == "/api/v1/memories" and body:
        if not re.search(r"[+-]\d\d:\d\d$", body["create_time"]):
            raise Refused(400, "create_time has no offset")
        groups[body["group_id"]].append({"id": fresh_id("episode"), "text": body["content"], **body})
        return done({"saved_memories": [], "count": int(body["flush"]), "status_info": "extracted"})
    if path == "/api/v1/memories":
        at, limit = int(query["offset"][0]), int(query["limit"][0])
        kept = groups[query["group_id"][0]]
        page = [shown(memory) for memory in kept[at : at + limit]]
        return done({"memories": page, "total_count": len(kept), "has_more": at + limit < len(kept)})
    name = body["group_id"]
    asked[name] += 1
    unready = behaviour == "stuck" or asked[name] <= UNREADY
    visible = [memory for memory in groups[name] if memory["create_time"] <= body.get("end_time", "9999")]
    found = best(visible, body["query"], body["top_k"] + 3 * (behaviour == "generous"))
    pending = [{"id": "1", "request_id": "1"}] if unready else []
    grouped = [{"episodic_memory": [shown(memory)]} for memory in found]
    return done({"memories": grouped, "scores": [], "has_more": False, "pending_messages": pending})


class Handler(BaseHTTPRequestHandler):
    def answer(self):
        length = int(self.headers["content-length"] or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        parts = urlsplit(self.path)
        behaviour, _, path = parts.path.lstrip("/").partition("/")
        path = "/" + path
        try:
            if path not in FIELDS:
                raise Refused(404, f"no {path} here")
            required, optional = FIELDS[path]
            if body and (not required <= set(body) or set(body) - required - optional):
                raise Refused(422, f"{path}: {sorted(body)}")
            searching = path.endswith("/search") and not self.readiness(body)
            if searching and behaviour == "failing":
                raise Refused(500, "the store is out of reach")
            if searching and behaviour == "garbled":
                return 200, "<html>a proxy's page</html>"
            if searching and behaviour == "renamed":
                return 200, json.dumps({"status": "ok", "code": 200, "results": []})
            kinds = {"/product": memos, "/api/v2": memmachine, "/api/v1": evermemos}
            [kind] = [kind for prefix, kind in kinds.items() if path.startswith(prefix)]
            return 200, json.dumps(kind(behaviour, path, body, parse_qs(parts.query)))
        except Refused as refused:
            return refused.status, json.dumps({"code": refused.status, "message": str(refused)})

    def readiness(self, body):
        return body.get("query") == "anything"

    def respond(self):
        status, text = self.answer()
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = respond

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
