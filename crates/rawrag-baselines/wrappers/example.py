"""A memory system in forty lines: the last messages that share a word with the question.

It speaks the protocol of docs/attach-a-system.md and keeps its messages in one file.
"""

import json
import re
import sys
from pathlib import Path

CAPABILITIES = {"dates": True, "speakers": True, "cutoff": True, "provenance": True, "deletion": False,
                "export": True, "persistence": True, "decisions": False}
file, kept = None, []


def item(said):
    return {"text": f"{said['speaker']}: {said['text']}", "messages": [said["position"]], "date": said["date"]}


def answer(call, request):
    global file, kept
    if call == "hello":
        return {"name": "shared-words", "version": "1", "capabilities": CAPABILITIES, "unit": "session"}
    if call == "open":
        file = Path(request["folder"], "messages.json")
        kept = json.loads(file.read_text()) if file.exists() else []
        return {"perspectives": 1}
    if call == "add":
        kept += request["messages"]
        file.write_text(json.dumps(kept))
    if call == "search":
        words = set(re.findall(r"\w+", request["question"].lower()))
        visible = [m for m in kept if not request["cutoff"] or not m["date"] or m["date"] <= request["cutoff"]]
        hits = [m for m in visible if words & set(re.findall(r"\w+", m["text"].lower()))]
        return {"items": [dict(item(m), score=None, stored=str(m["position"])) for m in hits[::-1][:request["k"]]]}
    if call == "export":
        return {"items": [dict(item(m), id=str(m["position"]), perspective=None) for m in kept]}
    return {}  # ready, usage and close have nothing to say here


for line in sys.stdin:
    request = json.loads(line)
    try:
        print(json.dumps({"ok": answer(request["call"], request)}), flush=True)
    except Exception as error:
        print(json.dumps({"error": repr(error)}), flush=True)
    if request["call"] == "close":
        break
