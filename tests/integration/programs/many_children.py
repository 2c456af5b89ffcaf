"""Forks until the capture has put files of ended processes together, says how many, and forks a few more."""

import os


def child_work():
    return 1


def fork():
    pid = os.fork()
    if not pid:
        child_work()
        os._exit(0)
    os.waitpid(pid, 0)


spool = next(value for value in os.environ.values() if ".spool-" in value)
number = 0
while number < 5000 and not os.path.exists(os.path.join(spool, "ended.gathered")):
    fork()
    number += 1
for _ in range(3):
    fork()
print(number + 3)
