#!/usr/bin/env python3
"""The queue of benches/timeline.rs as a Python user would write it with simpy (pip install simpy).

One provider with a fallback: constant arrivals, a token bucket, lognormal latency, an incident of a
tenth of the run, retries. Prints million requests per second of CPU time.
"""
import random
import time

import simpy

REQUESTS = 100_000
GAP_S = 0.005


def main():
    rng = random.Random(2026)
    env = simpy.Environment()
    length = REQUESTS * GAP_S
    bucket = {route: [11_000.0, 0.0] for route in (0, 1)}
    served = [0, 0, 0]

    def admitted(route):
        level, at = bucket[route]
        level = min(11_000.0, level + (env.now - at) * 11_000.0 / 60.0)
        ok = level >= 1.0
        bucket[route] = [level - ok, env.now]
        return ok

    def request():
        for route in (0, 1):
            for attempt in (1, 2):
                down = route == 0 and 0.4 * length <= env.now < 0.5 * length
                if not admitted(route) or (down and rng.random() < 0.8) or rng.random() < 0.004:
                    yield env.timeout(0.08)
                    if attempt == 1:
                        yield env.timeout(rng.random())
                    continue
                first = (0.08 + 900 * 0.0005) * rng.lognormvariate(0.0, 0.2)
                yield env.timeout(first + 250 * 0.025)
                served[route] += 1
                return
        served[2] += 1

    def arrivals():
        for _ in range(REQUESTS):
            env.process(request())
            yield env.timeout(GAP_S)

    env.process(arrivals())
    before = time.process_time()
    env.run()
    print(REQUESTS / (time.process_time() - before) / 1e6)


if __name__ == "__main__":
    main()
