"""A program as it runs on every system: threads, a child, an exit code."""

import subprocess
import sys
import threading


def leaf(n):
    return sum(range(n))


def work(rounds):
    for _ in range(rounds):
        leaf(1000)


if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        work(30)
        sys.exit(0)
    thread = threading.Thread(target=work, args=(20,))
    thread.start()
    thread.join()
    work(10)
    subprocess.run([sys.executable, __file__, "child"], check=True)
    sys.exit(7)
