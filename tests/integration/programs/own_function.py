"""Sets profile functions of its own, directly and by the pure-Python ``profile``, and prints what they saw."""

import profile
import pstats
import sys
import threading

seen = []


def look(frame, event, argument):
    seen.append((event, frame.f_code.co_name))


def other(frame, event, argument):
    seen.append(("other", event, frame.f_code.co_name))


def raises(frame, event, argument):
    raise ValueError("in a profile function")


def leaf():
    return len("abc")


def before():
    leaf()


def meanwhile():
    leaf()


def between():
    leaf()


def after():
    leaf()


def watched(function):
    sys.setprofile(function)
    meanwhile()
    sys.setprofile(None)


before()
own = profile.Profile()
own.runcall(meanwhile)  # first: CPython 3.12 gets it wrong after another profile function
watched(look)
between()
sys.setprofile(look)
sys.setprofile(other)
meanwhile()
sys.setprofile(None)
try:
    sys.setprofile(raises)
    leaf()
except ValueError as error:
    print(error, sys.getprofile())
sys.setprofile(None)
thread = threading.Thread(target=watched, args=(look,))
thread.start()
thread.join()
for (file, line, name), (cc, nc, _tt, _ct, callers) in sorted(pstats.Stats(own).stats.items()):
    print(file.rpartition("/")[2], line, name.partition(" at 0x")[0], cc, nc, len(callers))
for each in seen:
    if each[-1] in ("meanwhile", "leaf"):  # that one is set and unset is seen as calls of two kinds
        print(*each)
after()
