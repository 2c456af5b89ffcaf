"""Counts the signals that it gets until it has been quiet for a while; prints them."""

import signal
import sys
import time

seen = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda n, frame: seen.append(signal.Signals(n).name))
print("ready", flush=True)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    before = len(seen)
    time.sleep(0.4)
    if seen and len(seen) == before:
        break
print(seen)
sys.exit(5)
