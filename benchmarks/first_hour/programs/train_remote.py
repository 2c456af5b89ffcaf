"""Train a small network on batches that come from an HTTP store, as from an object store next door."""

import argparse
import io
import multiprocessing
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

FEATURES, HIDDEN, CLASSES, BATCH, SHARDS = 512, 3072, 10, 512, 16


def make_shards():
    """What the store holds: files of features and labels."""
    rng = np.random.default_rng(1)
    shards = []
    for _ in range(SHARDS):
        file = io.BytesIO()
        labels = rng.integers(0, CLASSES, BATCH)
        features = rng.standard_normal((BATCH, FEATURES)).astype(np.float32)
        features[:, :CLASSES] += 2 * np.eye(CLASSES, dtype=np.float32)[labels]
        np.savez(file, features=features, labels=labels)
        shards.append(file.getvalue())
    return shards


def serve(latency, ports):
    """Answer every request after a while."""
    shards = make_shards()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            time.sleep(latency)
            body = shards[int(self.path.rsplit("/", 1)[1]) % SHARDS]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ports.put(server.server_address[1])
    server.serve_forever()


def fetch_batch(url, number):
    """Get one batch from the store."""
    with urllib.request.urlopen(f"{url}/shards/{number}") as answer:
        file = np.load(io.BytesIO(answer.read()))
    return file["features"], file["labels"]


class Network:
    """One hidden layer, trained by gradient descent."""

    def __init__(self):
        rng = np.random.default_rng(2)
        self.first = (rng.standard_normal((FEATURES, HIDDEN)) * 0.05).astype(np.float32)
        self.second = (rng.standard_normal((HIDDEN, CLASSES)) * 0.05).astype(np.float32)

    def forward(self, features):
        self.hidden = np.maximum(features @ self.first, 0)
        scores = self.hidden @ self.second
        scores -= scores.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        return odds / odds.sum(axis=1, keepdims=True)

    def backward(self, features, labels, odds, rate=0.01):
        odds[np.arange(len(labels)), labels] -= 1
        odds /= len(labels)
        hidden = (odds @ self.second.T) * (self.hidden > 0)
        self.second -= rate * (self.hidden.T @ odds)
        self.first -= rate * (features.T @ hidden)


def train(url, steps):
    """Fetch, forward, backward; return the share of right answers of the last steps."""
    network, right = Network(), []
    for step in range(steps):
        features, labels = fetch_batch(url, step)
        odds = network.forward(features)
        right.append((odds.argmax(axis=1) == labels).mean())
        network.backward(features, labels, odds)
    return np.mean(right[-10:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--store-latency", type=float, default=2, help="milliseconds")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    ports = multiprocessing.Queue()
    store = multiprocessing.Process(target=serve, args=(options.store_latency / 1e3, ports), daemon=True)
    store.start()
    accuracy = train(f"http://127.0.0.1:{ports.get()}", options.steps)
    store.terminate()
    store.join()
    print(f"accuracy {accuracy:.2f}")


if __name__ == "__main__":
    main()
