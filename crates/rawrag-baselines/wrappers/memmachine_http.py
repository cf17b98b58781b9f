"""MemMachine behind the wrapper protocol, over its HTTP interface (`/api/v2`).

A search returns episodes, summaries of its short-term memory and semantic features, each list with a
budget of k (Raw-RAG, D.3.7).
"""

import time

from rawrag_service import ServiceSystem, content, instant, shown
from rawrag_wrapper import serve

ORGANISATION = "rawrag"
# What MemMachine is told of a message without a date; it would otherwise take the wall clock.
UNDATED = "1970-01-01T00:00:00+00:00"
PAGE = 100


class MemMachine(ServiceSystem):
    settings = {
        "quiet": 60.0,  # seconds without a new semantic feature after which they count as complete
    }
    description = {
        "name": "memmachine",
        "version": "HTTP interface v2",
        "capabilities": {
            "dates": False,
            "speakers": True,
            "cutoff": False,
            "provenance": False,
            "deletion": True,
            "export": True,
            "persistence": True,
            "decisions": False,
        },
        "unit": {"messages": 10},
        "notes": [
            "Written from its public interface and tested against a server of this project's own, never a real MemMachine.",
            "Three lists of k: episodes, summaries of the short-term memory, semantic features.",
            "Episodes have their message's date and provenance; features those of the episodes that they cite, if any.",
            "No call says that semantic memory is complete: it counts as such once it stops growing for `quiet` seconds.",
            "What the service spends on models is not known here and counts as 0.",
        ],
    }

    def begin(self, request):
        self.project = {"org_id": ORGANISATION, "project_id": self.identity}
        path = "/api/v2/projects" if request["fresh"] else "/api/v2/projects/get"
        self.service.call("POST", path, self.project)
        return 3

    def post(self, path, **body):
        return self.service.call("POST", f"/api/v2{path}", {**self.project, **body})

    def add(self, request):
        said = request["messages"]
        messages = [
            {
                "content": content(message),
                "producer": message["speaker"],
                "timestamp": instant(message["date"]) if message["date"] else UNDATED,
                "role": "user",
                "metadata": {"position": str(message["position"])},
            }
            for message in said
        ]
        answer = self.post("/memories", messages=messages)
        results = answer.field(list, "results")
        if len(results) != len(said):
            raise RuntimeError(f"{answer.what}: {len(results)} results for {len(said)} messages")
        for message, result in zip(said, results):
            self.came_from(result["uid"], [message])
        return {}

    def settle(self):
        expected = len(self.origin)
        if expected == 0:
            return
        counted = []

        def all_in():
            answer = self.post("/projects/episode_count/get")
            counted[:] = [answer.field(int, "count")]
            return counted[0] >= expected

        self.until(all_in, f"fewer than {expected} episodes are stored")
        last, since = None, time.monotonic()

        def quiet():
            nonlocal last, since
            features = len(self.pages("semantic"))
            if features != last:
                last, since = features, time.monotonic()
            return time.monotonic() - since >= self.options["quiet"]

        self.until(quiet, "semantic memory still grows")

    def pages(self, kind):
        """Everything of a kind that the project keeps."""
        kept, number = [], 0
        while True:
            answer = self.post("/memories/list", type=kind, page_size=PAGE, page_num=number)
            page = answer.field(list, "content", f"{kind}_memory")
            kept += page
            number += 1
            if len(page) < PAGE:
                return kept

    def search(self, request):
        k = request["k"]
        if k == 0:
            return {"items": []}
        found = self.post("/memories/search", query=request["question"], top_k=k)
        long = found.field(list, "content", "episodic_memory", "long_term_memory", "episodes")
        short = found.field(list, "content", "episodic_memory", "short_term_memory", "episodes")
        summaries = found.field(list, "content", "episodic_memory", "short_term_memory", "episode_summary")
        features = self.most(found.field(list, "content", "semantic_memory"), k, "semantic features")
        episodes = {}
        for episode in self.most(long, k, "episodes") + short:
            episodes.setdefault(episode["uid"], episode)
        items = [{**self.episode(episode), "score": episode.get("score")} for episode in list(episodes.values())[:k]]
        items += [self.summary(text) for text in summaries if text.strip()][:k]
        items += [self.feature(feature) for feature in features]
        for item in items:
            item["stored"] = item.pop("id")
        return {"items": items}

    def episode(self, episode):
        origin = self.where_from(episode["uid"])
        text = shown(origin["date"], f"{episode['producer_id']}: {episode['content']}")
        return {"id": f"episode:{episode['uid']}", "text": text, **origin}

    def summary(self, text):
        return {"id": f"summary:{text}", "text": text, "messages": None, "date": None}

    def feature(self, feature):
        metadata = feature.get("metadata") or {}
        origins = [self.origin[uid] for uid in metadata.get("citations") or [] if uid in self.origin]
        positions = sorted({position for origin in origins for position in origin["messages"]})
        dates = [origin["date"] for origin in origins if origin["date"]]
        name = f"{feature['category']}/{feature['tag']}/{feature['feature_name']}"
        return {
            "id": f"feature:{metadata.get('id') or name + '=' + feature['value']}",
            "text": f"{feature['feature_name']}: {feature['value']}",
            "messages": positions or None,
            "date": max(dates, default=None),
        }

    def export(self, request):
        items = [self.episode(episode) for episode in self.pages("episodic")]
        items += [self.feature(feature) for feature in self.pages("semantic")]
        if self.origin:
            # No list holds the summaries; any search shows the present ones.
            found = self.post("/memories/search", query="summary", top_k=1)
            summaries = found.field(list, "content", "episodic_memory", "short_term_memory", "episode_summary")
            items += [self.summary(text) for text in summaries if text.strip()]
        return {"items": items}


serve(MemMachine())
