"""Holds the official Python clients against the stand-ins: answers, tools, streams, and every fault.

Usage: sdks.py ADDRESSES EXPECTED TALLY: the JSON object that `routelab serve --json` prints, the file
expected.json, and the file that the numbers of checks passed and failed are appended to.

What a client makes of a fault is its own behaviour. expected.json writes it down, by client and by the
model that faults.toml spoils: the exception and status of an answer sent at once, and of a stream.
`silent` is a broken stream that the client does not notice: it ends as if the answer were complete.
`waits` is a call that the client's time limit does not end. When a new version notices, the check
fails, and the table is what has to change.
"""

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai
from google import genai
from google.genai import errors as genai_errors
from google.genai import types

ADDRESSES = json.loads(sys.argv[1])
URL = {one["name"]: one["base_url"] for one in ADDRESSES["dialects"]}
QUESTION = "What is the weather in Oslo?"
FOUND = '{"temp_c": 12, "sky": "clear", "city": "Oslo"}'
REPORT = "It is 12 C and clear in Oslo."
WORDS = "one two three four five"
ANSWER = "You asked: one two three four five"
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
ABOUT = "Get the current weather for a city"
# Longer than any answer that comes, shorter than a test's patience.
TIMEOUT_S = 4.0


class OpenAI:
    def __init__(self, name, dialect):
        self.name = name
        self.client = openai.OpenAI(
            base_url=URL[dialect], api_key="any", max_retries=0, timeout=TIMEOUT_S
        )
        self.tool = {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": ABOUT,
                "parameters": PARAMETERS,
            },
        }

    def complete(self, model, text):
        answer = self.client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": text}]
        )
        said = answer.choices[0].message.content
        return said, answer.usage.prompt_tokens, answer.usage.completion_tokens

    def stream(self, model, text):
        said, usage = "", None
        for chunk in self.client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": text}],
            stream=True,
            stream_options={"include_usage": True},
        ):
            if chunk.choices and chunk.choices[0].delta.content:
                said += chunk.choices[0].delta.content
            usage = chunk.usage or usage
        return said, usage and usage.prompt_tokens, usage and usage.completion_tokens

    def tool_loop(self, model):
        messages = [{"role": "user", "content": QUESTION}]
        ask = lambda: self.client.chat.completions.create(
            model=model, messages=messages, tools=[self.tool]
        )
        turn = ask().choices[0]
        call = turn.message.tool_calls[0]
        assert turn.finish_reason == "tool_calls", turn.finish_reason
        messages.append(turn.message)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": FOUND})
        said = ask().choices[0].message.content
        return call.function.name, json.loads(call.function.arguments), said

    def tool_stream(self, model):
        name, arguments = "", ""
        for chunk in self.client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": QUESTION}],
            tools=[self.tool],
            stream=True,
        ):
            for choice in chunk.choices:
                for call in choice.delta.tool_calls or []:
                    name += call.function.name or ""
                    arguments += call.function.arguments or ""
        return name, json.loads(arguments)


class Anthropic:
    name = "anthropic (Python)"

    def __init__(self):
        self.client = anthropic.Anthropic(
            base_url=URL["anthropic"], api_key="any", max_retries=0, timeout=TIMEOUT_S
        )
        self.tool = {
            "name": "get_weather",
            "description": ABOUT,
            "input_schema": PARAMETERS,
        }

    def ask(self, model, messages, **more):
        return dict(model=model, max_tokens=100, messages=messages, **more)

    def complete(self, model, text):
        answer = self.client.messages.create(
            **self.ask(model, [{"role": "user", "content": text}])
        )
        usage = answer.usage
        return answer.content[0].text, usage.input_tokens, usage.output_tokens

    def stream(self, model, text):
        with self.client.messages.stream(
            **self.ask(model, [{"role": "user", "content": text}])
        ) as stream:
            said = "".join(stream.text_stream)
            usage = stream.get_final_message().usage
        return said, usage.input_tokens, usage.output_tokens

    def tool_loop(self, model):
        messages = [{"role": "user", "content": QUESTION}]
        turn = self.client.messages.create(
            **self.ask(model, messages, tools=[self.tool])
        )
        call = turn.content[-1]
        assert turn.stop_reason == "tool_use", turn.stop_reason
        result = {"type": "tool_result", "tool_use_id": call.id, "content": FOUND}
        messages.append({"role": "assistant", "content": turn.content})
        messages.append({"role": "user", "content": [result]})
        answer = self.client.messages.create(
            **self.ask(model, messages, tools=[self.tool])
        )
        return call.name, call.input, answer.content[0].text

    def tool_stream(self, model):
        with self.client.messages.stream(
            **self.ask(model, [{"role": "user", "content": QUESTION}], tools=[self.tool])
        ) as stream:
            call = stream.get_final_message().content[-1]
        return call.name, call.input


class Gemini:
    name = "google-genai (Python)"

    def __init__(self):
        self.client = genai.Client(
            api_key="any",
            http_options=types.HttpOptions(
                base_url=URL["gemini"],
                timeout=int(TIMEOUT_S * 1000),
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )
        declared = types.FunctionDeclaration(
            name="get_weather", description=ABOUT, parameters_json_schema=PARAMETERS
        )
        self.config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=[declared])]
        )

    def complete(self, model, text):
        answer = self.client.models.generate_content(model=model, contents=text)
        usage = answer.usage_metadata
        return answer.text, usage.prompt_token_count, usage.candidates_token_count

    def stream(self, model, text):
        said, usage = "", None
        for chunk in self.client.models.generate_content_stream(
            model=model, contents=text
        ):
            said += chunk.text or ""
            usage = chunk.usage_metadata or usage
        return (
            said,
            usage and usage.prompt_token_count,
            usage and usage.candidates_token_count,
        )

    def tool_loop(self, model):
        contents = [types.UserContent(QUESTION)]
        ask = lambda: self.client.models.generate_content(
            model=model, contents=contents, config=self.config
        )
        turn = ask()
        call = turn.function_calls[0]
        contents.append(turn.candidates[0].content)
        part = types.Part.from_function_response(
            name=call.name, response={"result": FOUND}
        )
        contents.append(types.Content(role="user", parts=[part]))
        return call.name, call.args, ask().text

    def tool_stream(self, model):
        calls = []
        for chunk in self.client.models.generate_content_stream(
            model=model, contents=QUESTION, config=self.config
        ):
            calls += chunk.function_calls or []
        return calls[0].name, calls[0].args


SILENT = "silent"
# Keep-alives come twice a second, so no time limit between two bytes ever ends a call that gets nothing
# else. A client whose own limit does not end it is still waiting after this.
PATIENCE_S = 2 * TIMEOUT_S
FAULTS = json.load(open(sys.argv[2]))


def outcome(call):
    """The name of the exception and its status, or how the answer ended."""
    seen = ["waits"]

    def run():
        try:
            seen[0] = "ok" if call()[0] == ANSWER else SILENT
        except Exception as error:
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            name = type(error).__name__
            seen[0] = f"{name} {status}" if isinstance(status, int) else name

    caller = threading.Thread(target=run, daemon=True)
    caller.start()
    caller.join(PATIENCE_S)
    return seen[0]


def examine(client):
    """What went well and what did not."""
    good, bad = 0, []

    def check(what, seen, expected):
        nonlocal good
        if seen == expected:
            good += 1
        else:
            bad.append(f"{what}: expected {expected!r}, got {seen!r}")

    try:
        said, sent, received = client.complete("m", WORDS)
        check("complete", (said, received), (ANSWER, 7))
        check("complete, tokens of the prompt", bool(sent and sent > 0), True)
        check("stream", client.stream("m", WORDS), (said, sent, received))
        check("slow stream", client.stream("slow", WORDS)[0], ANSWER)
        weather = ("get_weather", {"city": "Oslo"})
        check("tools", client.tool_loop("m"), (*weather, REPORT))
        check("tools in a stream", client.tool_stream("m"), weather)
    except Exception as error:
        bad.append(f"answers: {type(error).__name__}: {error}")
    for model, (whole, streamed) in FAULTS[client.name].items():
        seen = outcome(lambda: client.complete(model, WORDS))
        check(f"{model}, complete", seen, whole)
        seen = outcome(lambda: client.stream(model, WORDS))
        check(f"{model}, stream", seen, streamed)
    return good, bad


def main():
    passed = failed = 0
    clients = [
        OpenAI("openai (Python)", "openai"),
        OpenAI("openai (Python) at a compatible server", "compatible"),
        Anthropic(),
        Gemini(),
    ]
    # Side by side, because most of the time goes into waiting for limits.
    with ThreadPoolExecutor(len(clients)) as together:
        for client, (good, bad) in zip(clients, together.map(examine, clients)):
            print(f"{client.name}: {good} passed, {len(bad)} failed")
            for one in bad:
                print(f"  {one}")
            passed += good
            failed += len(bad)
    return passed, failed


if __name__ == "__main__":
    PASSED, FAILED = main()
    with open(sys.argv[3], "a") as tally:
        tally.write(f"{PASSED} {FAILED}\n")
    sys.stdout.flush()
    # Calls that still wait must not keep the process.
    os._exit(0)
