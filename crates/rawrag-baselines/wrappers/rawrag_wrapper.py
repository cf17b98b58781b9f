"""What the wrappers of this project share: the loop of docs/attach-a-system.md.

Standard output belongs to the protocol, so whatever a library prints goes to the error stream.
"""

import inspect
import json
import logging
import os
import re
import sys
import traceback
from datetime import datetime, timezone


def serve(system):
    """Answers requests until `close`: each call is a method of `system` that takes the request."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            response = {"ok": getattr(system, request["call"])(request)}
        except Exception as error:
            traceback.print_exc()
            response = {"error": f"{type(error).__name__}: {error}"}
        output.write(json.dumps(response, ensure_ascii=False) + "\n")
        output.flush()
        if request["call"] == "close":
            return


class Limits:
    """Cuts texts to a number of characters and counts how many it cut."""

    def __init__(self, characters):
        self.characters = characters
        self.cut = 0

    def apply(self, text):
        self.cut += len(text) > self.characters
        return text[: self.characters]


def models_of(request, name):
    """The service of models that an experiment names; an error that says where if it names none."""
    if not request["models"]:
        raise ValueError(f"{name} needs models: name a service under [memory.models], or with --models-at")
    return request["models"]


def require(settings, known):
    """The settings over their defaults; one that is not known is an error."""
    unknown = set(settings) - set(known)
    if unknown:
        raise ValueError(f"unknown settings {sorted(unknown)}; known are {sorted(known)}")
    return {**known, **settings}


def spoken(said):
    """A message as an extractor reads it: date, speaker, text and captions."""
    captions = "".join(f" [image: {caption}]" for caption in said["captions"])
    return f"[{said['date'] or 'unknown date'}] {said['speaker']}: {said['text']}{captions}"


def read_instant(text):
    """A date of the protocol or of a service as an instant; a time without an offset is UTC."""
    when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return when if when.tzinfo else when.replace(tzinfo=timezone.utc)


def until(items, cutoff):
    """The items that are not later than the cutoff, ordered as `rawrag` orders dates."""

    def key(date):
        when = read_instant(date)
        return when, when.utcoffset(), len(date) > len("2023-05-08")

    return [item for item in items if not cutoff or not item["date"] or key(item["date"]) <= key(cutoff)]


class Failures(logging.Handler):
    """What a library prints or logs of its failures and then goes on after: here they fail the call.

    `pattern` is what a printed line that tells a failure begins with. Gathered and not raised at
    once, since libraries also catch what is raised while they print, and print in other threads.
    """

    def __init__(self, pattern="(?!)", level=logging.ERROR):
        super().__init__(level)
        self.pattern, self.told = re.compile(pattern), []

    def print(self, *said, **named):
        """Stands for `print` in the library's modules."""
        text = " ".join(str(part) for part in said)
        print(text, file=sys.stderr)
        if self.pattern.match(text.lstrip()):
            self.told.append(text)

    def emit(self, record):
        self.told.append(record.getMessage())

    def check(self):
        if self.told:
            told, self.told = "; ".join(self.told), []
            raise RuntimeError(told)


class UsageMeter:
    """Counts the calls of an OpenAI client's chat and embeddings, and what the service says they took."""

    def __init__(self):
        self.counts = {"chat_calls": 0, "input_tokens": 0, "output_tokens": 0, "embedding_calls": 0}

    def watch(self, chat, embeddings):
        self._wrap(chat.chat.completions, "chat_calls")
        self._wrap(embeddings.embeddings, "embedding_calls")

    def _wrap(self, resource, counter):
        create = resource.create

        def counted(*arguments, **named):
            reply = create(*arguments, **named)
            return self._later(reply, counter) if inspect.isawaitable(reply) else self._count(reply, counter)

        resource.create = counted

    async def _later(self, reply, counter):
        return self._count(await reply, counter)

    def _count(self, reply, counter):
        self.counts[counter] += 1
        if counter == "chat_calls" and reply.usage:
            self.counts["input_tokens"] += reply.usage.prompt_tokens
            self.counts["output_tokens"] += reply.usage.completion_tokens
        return reply
