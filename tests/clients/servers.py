"""Holds the live client against servers that other people wrote; see `servers`."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROUTELAB = os.environ["ROUTELAB"]
BIN = Path(sys.executable).parent
WORK = Path(tempfile.mkdtemp(prefix="routelab-servers-"))
# Findings of llmock that a router must never get. A stream that breaks after output is another matter:
# llmock sees only whether the call is sent again, and a router must not replay what somebody has read.
# That it reports the failure is checked on its own side.
NEVER = {
    "retry_after_ignored",
    "retried_non_retryable",
    "retry_storm",
    "no_backoff",
    "no_read_timeout",
}
TALLY = {True: 0, False: 0}


def check(what, seen, expected):
    good = seen == expected
    TALLY[good] += 1
    if not good:
        print(f"  {what}: expected {expected!r}, got {seen!r}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return json.load(answer)


@contextmanager
def running(command, ready, **environment):
    """A server, from when it answers at `ready` until the end of the block."""
    log = open(WORK / f"{Path(command[0]).name}.log", "w")
    server = subprocess.Popen(
        [str(part) for part in command],
        stdout=log,
        stderr=log,
        env={**os.environ, **environment},
    )
    try:
        for _ in range(600):
            try:
                fetch(ready)
                break
            except (OSError, ValueError):
                if server.poll() is not None:
                    raise SystemExit(f"{command[0]} ended; see {log.name}")
                time.sleep(0.2)
        else:
            raise SystemExit(f"{command[0]} does not answer; see {log.name}")
        yield
    finally:
        server.terminate()
        server.wait()


def catalogue(name, routes, more=""):
    """routes.toml with these (route, kind, base address, model)."""
    text = '[require]\ndefault = { residency = ["here"] }\n' + more
    for route, kind, url, model in routes:
        text += f"""
[provider.{route}-server]
kind = "{kind}"
base_url = "{url}"
api_key_env = "OUTSIDE_KEY"

[route.{route}]
provider = "{route}-server"
model = "{model}"
residency = ["here"]
usd_per_mtok = {{ input = 1.0, output = 2.0 }}
"""
    path = WORK / f"{name}.toml"
    path.write_text(text)
    return path


def call(routes, first, *fallback, stream=True, words="Hi there you all"):
    """What `routelab call --json` says."""
    policy = WORK / "policy.toml"
    more = f"fallback = {json.dumps(list(fallback))}\n" if fallback else ""
    policy.write_text(f'[fixed]\nroute = "{first}"\n{more}')
    command = [ROUTELAB, "call", words, "--json", "--routes", routes, "-p", policy]
    if not stream:
        command.append("--no-stream")
    run = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OUTSIDE_KEY": "outside-key"},
    )
    if run.returncode == 2:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout)


def trail(said):
    return [
        (one["route"], one["attempt"], one["outcome"], one["kind"]) for one in said["trail"]
    ]


def section(name):
    print(f"{name}")


def with_llmock(options, behaviors, work):
    """Runs `work(routes)` against an llmock, and returns what it thinks of the client."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    command = [BIN / "llmock", "serve", "--host", "127.0.0.1", "--port", port, *options]
    with running(command, f"{base}/_llmock/verdict"):
        if behaviors:
            fetch(f"{base}/_llmock/scenario", {"behaviors": behaviors})
        work(
            catalogue(
                "llmock",
                [
                    ("chat", "openai", base, "gpt-4o"),
                    ("messages", "anthropic", f"{base}/anthropic", "claude-sonnet-4"),
                    ("generate", "gemini", f"{base}/gemini", "gemini-2.5-flash"),
                ],
                "[router]\nattempts_max = 2\n",
            )
        )
        verdict = fetch(f"{base}/_llmock/verdict")
    codes = {finding["code"] for finding in verdict["findings"]}
    check("findings that a router must never get", codes & NEVER, set())
    print(f"  verdict: passed {verdict['passed']}, findings {sorted(codes)}")
    return codes


def llmock():
    section("llmock: answers in three dialects")

    def answers(routes):
        for route in ("chat", "messages", "generate"):
            for stream in (True, False):
                said = call(routes, route, stream=stream)
                check(f"{route}", trail(said), [(route, 1, "ok", None)])
                check(f"{route}, text", bool(said["answer"]), True)
                tokens = said["trail"][0]["tokens"]
                check(f"{route}, tokens", tokens["input"] and tokens["output"] and True, True)

    check("findings", with_llmock([], None, answers), set())

    section("llmock: a rate limit that says how long, then it answers")

    def waits(routes):
        said = call(routes, "chat")
        expected = [("chat", 1, "error", "rate_limit"), ("chat", 2, "ok", None)]
        check("trail", trail(said), expected)
        check("waited a second", said["trail"][1]["waited_us"] >= 1_000_000, True)

    once = [{"type": "fail", "status": 429, "times": 1, "retry_after": 1}]
    check("findings", with_llmock([], once, waits), set())

    section("llmock: a server that stays down, and another that answers")

    def falls_back(routes):
        said = call(routes, "chat", "messages")
        expected = [
            ("chat", 1, "error", "overloaded"),
            ("chat", 2, "error", "overloaded"),
            ("messages", 1, "ok", None),
        ]
        check("trail", trail(said), expected)

    down = [{"type": "fail", "status": 503, "times": 2}]
    with_llmock([], down, falls_back)

    section("llmock: a key that is refused is not tried again there")

    def refused(routes):
        said = call(routes, "chat", "generate")
        expected = [("chat", 1, "error", "auth"), ("generate", 1, "ok", None)]
        check("trail", trail(said), expected)

    with_llmock([], [{"type": "fail", "status": 401, "times": 1}], refused)

    for fault in ("truncate", "disconnect", "malformed"):
        section(f"llmock: streams that {fault}")

        def breaks(routes):
            for route in ("chat", "messages"):
                said = call(routes, route, "generate", words="Tell me a long story")
                check(f"{route}, no answer", said["answer"], None)
                kinds = {one[3] for one in trail(said)}
                check(f"{route}, kinds", kinds <= {"server", "timeout"} and bool(kinds), True)
                shown = [one["outcome"] for one in said["trail"]]
                # Once something was shown, nothing more is sent.
                check(f"{route}, replays", "error_mid_stream" in shown[:-1], False)

        codes = with_llmock(["--stream-fault", f"{fault}=1.0"], None, breaks)
        allowed = {"truncated_stream_accepted", "malformed_chunk_ignored", "gave_up"}
        check("other findings", codes - allowed, set())


def litellm():
    section("LiteLLM proxy between the live client and our stand-ins")
    seen = WORK / "seen.jsonl"
    faults = Path(__file__).parent / "faults.toml"
    serve = subprocess.Popen(
        [ROUTELAB, "serve", "--json", "--faults", faults, "--log", seen],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        at = json.loads(serve.stdout.readline())
        root = {one["name"]: one["root_url"] for one in at["dialects"]}
        upstream = {
            "chat": ("openai", f"{root['openai']}/v1"),
            "messages": ("anthropic", root["anthropic"]),
            "generate": ("gemini", f"{root['gemini']}/v1beta"),
        }
        models = [
            {
                "model_name": f"up-{name}{fault}",
                "litellm_params": {
                    "model": f"{kind}/{fault.strip('-') or 'm'}",
                    "api_base": url,
                    "api_key": "up-key",
                    "max_retries": 0,
                },
            }
            for name, (kind, url) in upstream.items()
            for fault in ("", "-rate-limited", "-server-error")
        ]
        config = WORK / "litellm.yaml"
        settings = {"num_retries": 0, "telemetry": False}
        # YAML reads JSON.
        router = {"num_retries": 0, "disable_cooldowns": True}
        text = {
            "model_list": models,
            "litellm_settings": settings,
            "router_settings": router,
        }
        config.write_text(json.dumps(text))
        port = free_port()
        base = f"http://127.0.0.1:{port}"
        command = [BIN / "litellm", "--config", config, "--host", "127.0.0.1", "--port", port]
        weak = {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
        with running(command, f"{base}/health/liveliness", **weak):
            proxied(base, seen)
    finally:
        serve.terminate()
        check("serve ends well", serve.wait(), 0)


def proxied(base, seen):
    dialects = [("chat", "compatible"), ("messages", "anthropic"), ("generate", "gemini")]
    words = "one two three four five"
    for down, kind in dialects:
        for up in ("chat", "messages", "generate"):
            routes = catalogue("litellm", [(down, kind, base, f"up-{up}")])
            for stream in (True, False):
                said = call(routes, down, stream=stream, words=words)
                what = f"{down} over {up}, {'stream' if stream else 'at once'}"
                expected = KNOWN.get((down, up, stream), ("ok", None))
                check(what, trail(said)[-1][2:], expected)
                if expected == ("ok", None):
                    check(f"{what}, text", said["answer"], f"You asked: {words}")
                    tokens = said["trail"][-1]["tokens"]
                    check(f"{what}, tokens", tokens["output"], 7)
    for fault, kind in (("rate-limited", "rate_limit"), ("server-error", "server")):
        routes = catalogue("litellm", [("chat", "compatible", base, f"up-chat-{fault}")])
        said = call(routes, "chat", words=words)
        check(f"{fault} through the proxy", trail(said)[0], ("chat", 1, "error", kind))
    lines = [json.loads(line) for line in seen.read_text().splitlines()]
    print(f"  the stand-ins saw {len(lines)} requests")
    lost = {line["path"] for line in lines if line["status"] == 404}
    check("paths that are not served", lost, {"/openai/v1/responses"})


# What LiteLLM 1.108.7 does that is not ours: (asked in, answered from, stream) -> outcome and kind.
KNOWN = {
    # It asks OpenAI's Responses API then, which the stand-ins do not offer.
    ("messages", "chat", True): ("error", "invalid_request"),
    ("messages", "chat", False): ("error", "invalid_request"),
}

if __name__ == "__main__":
    only = sys.argv[1:]
    for part in (llmock, litellm):
        if not only or part.__name__ in only:
            part()
    print(f"{TALLY[True]} passed, {TALLY[False]} failed")
    sys.exit(TALLY[False] > 0)
