"""MemU behind the wrapper protocol: every message is a resource, from which items of four types are drawn."""

import asyncio
import json
import logging
import os
from importlib.metadata import version

import memu.database.sqlite.schema as schema
import sqlmodel.main
from memu.app import MemoryService
from rawrag_wrapper import Failures, UsageMeter, models_of, require, serve, until
from sqlalchemy.types import Text, TypeDecorator

# The one user of a conversation's own store.
USER = {"user_id": "conversation"}


class Unused(TypeDecorator):
    """A column that stays empty."""

    impl, cache_ok = Text, True

    def process_bind_param(self, value, dialect):
        return None


def mend_sqlite():
    """Lets release 1.5.1 make its SQLite tables.

    It names them with SQLite's reserved prefix, and asks for a column of a list of floats, which has
    no type; the vectors themselves are kept as text in another column (memU's issue 382).
    """
    column_type, table = sqlmodel.main.get_sqlalchemy_type, schema.build_sqlite_table_model

    def typed(field):
        try:
            return column_type(field)
        except ValueError:
            return Unused

    def named(*arguments, tablename, **rest):
        return table(*arguments, tablename=tablename.replace("sqlite_", "memu_", 1), **rest)

    sqlmodel.main.get_sqlalchemy_type, schema.build_sqlite_table_model = typed, named


mend_sqlite()


class MemU:
    description = {
        "name": "memu",
        "version": version("memu-py"),
        "capabilities": {
            "dates": True,
            "speakers": True,
            "cutoff": True,
            "provenance": True,
            "deletion": False,
            "export": True,
            "persistence": True,
            "decisions": True,
        },
        "unit": {"messages": 1},
        "notes": [
            "Kept in SQLite, whose tables release 1.5.1 makes only once two faults are mended; the paper used PostgreSQL.",
            "Item-only: categories are written and summarised, and a search asks for items alone.",
            "Its router may decide that a question needs no memory; then its search finds nothing.",
            "Every message is said by MemU's `user`, with the speaker's name before the text.",
            "What is later than a cutoff is taken out of the k items found, so fewer may remain.",
            "A model's failed call or unreadable reply fails the add; MemU itself goes on with no items.",
        ],
    }

    def hello(self, request):
        if request["protocol"] != 1:
            raise ValueError(f"protocol {request['protocol']} is not spoken here, 1 is")
        return self.description

    def open(self, request):
        models = models_of(request, "MemU")
        require(request["settings"], {})
        self.folder, self.unit, self.returned = request["folder"], 0, []
        # MemU tells in its log what it could not read of a reply, and goes on without.
        self.failures = Failures(level=logging.WARNING)
        self.failures.addFilter(lambda record: record.name == "root" or record.name.startswith("memu"))
        logging.getLogger().handlers = [logging.StreamHandler(), self.failures]
        self.resources = os.path.join(self.folder, "resources")
        self.service = MemoryService(
            llm_profiles={
                "default": {
                    "base_url": models["address"],
                    "api_key": os.environ.get("RAWRAG_API_KEY", "none"),
                    "chat_model": models["chat"],
                    "embed_model": models["embedding"],
                }
            },
            database_config={
                "metadata_store": {
                    "provider": "sqlite",
                    "dsn": f"sqlite:///{os.path.join(self.folder, 'memu.db')}",
                }
            },
            blob_config={"resources_dir": self.resources},
            retrieve_config={
                "item": {"enabled": True},
                "category": {"enabled": False},
                "resource": {"enabled": False},
            },
        )
        self.meter = UsageMeter()
        clients = [self.service._get_llm_base_client(profile).client for profile in ("default", "embedding")]
        self.meter.watch(*clients)
        self.loop = asyncio.new_event_loop()
        self.origin = {}
        if not request["fresh"]:
            with open(self.kept(), encoding="utf-8") as file:
                self.origin = json.load(file)
        return {"perspectives": 1}

    def kept(self):
        return os.path.join(self.folder, "origin.json")

    def add(self, request):
        for message in request["messages"]:
            captions = "".join(f" [image: {caption}]" for caption in message["captions"])
            content = f"{message['speaker']}: {message['text']}{captions}"
            path = os.path.join(self.resources, f"{message['position']}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump([{"role": "user", "content": content, "created_at": message["date"]}], file)
            memorized = self.loop.run_until_complete(
                self.service.memorize(resource_url=path, modality="conversation", user=USER)
            )
            self.failures.check()
            for item in memorized["items"]:
                self.origin[item["id"]] = {"messages": [message["position"]], "date": message["date"]}
                self.returned.append((self.unit, item["id"], item["summary"]))
        self.unit += 1
        return {}

    def items(self):
        return self.service.database.memory_item_repo.list_items(USER)

    def ready(self, request):
        with open(self.kept(), "w", encoding="utf-8") as file:
            json.dump(self.origin, file)
        return {}

    def search(self, request):
        if request["k"] == 0 or not self.origin:
            return {"items": []}
        self.service.retrieve_config.item.top_k = request["k"]
        query = [{"role": "user", "content": {"text": request["question"]}}]
        found = self.loop.run_until_complete(self.service.retrieve(query, where=USER))["items"]
        self.failures.check()
        items = [
            {
                "text": self.shown(item["id"], item["summary"]),
                "score": item["score"],
                "stored": item["id"],
                **self.origin[item["id"]],
            }
            for item in found
        ]
        return {"items": until(items, request["cutoff"])}

    def shown(self, identity, summary):
        return f"[{self.origin[identity]['date'] or 'unknown date'}] {summary}"

    def export(self, request):
        return {
            "items": [
                {"id": identity, "text": self.shown(identity, item.summary), **self.origin[identity]}
                for identity, item in self.items().items()
            ]
        }

    def decisions(self, request):
        persisted, log = self.items(), []
        for unit, memory, text in self.returned:
            levels = [("returned", text)]
            if memory in persisted:
                levels.append(("persisted", persisted[memory].summary))
            for level, new in levels:
                decision = {"unit": unit, "level": level, "event": "ADD", "memory": memory, "old": None, "new": new}
                log.append({**decision, "perspective": None})
        return {"decisions": log}

    def usage(self, request):
        return self.meter.counts

    def close(self, request):
        self.service.database.close()
        return {}


serve(MemU())
