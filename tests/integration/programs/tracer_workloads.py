"""Programs for comparing call counts with cProfile's; see tracer_target.py. Holds no tests itself.

They run the same whenever they run again: no hash, time or address decides what is called.
"""

# Written in unusual ways on purpose.
# ruff: noqa

import sys


def generators():
    """Every way into and out of a generator."""

    def g():
        try:
            while True:
                try:
                    x = yield 1
                except ValueError:
                    yield 2
        finally:
            len("closing")

    a = g()
    next(a)
    a.send(3)
    a.throw(ValueError())
    a.close()
    b = g()
    next(b)
    del b

    def outer():
        r = yield from inner()
        return r

    def inner():
        try:
            yield 1
        except KeyError:
            pass
        yield 2
        return 3

    o = outer()
    next(o)
    o.throw(KeyError())
    list(o)
    o = outer()
    next(o)
    try:
        o.throw(RuntimeError("x"))
    except RuntimeError:
        pass
    o = outer()
    next(o)
    o.close()
    n = g()
    try:
        n.throw(ValueError())
    except ValueError:
        pass
    list(x for x in range(5))
    [x for x in map(str, range(5))]
    sum(i for i in range(10))
    any(i > 2 for i in range(10))
    dict((i, i) for i in range(3))
    [*delegating()]


def delegating():
    yield from range(3)
    yield from counting()


def counting():
    for i in range(4):
        yield i


def exceptions():
    """Exceptions through Python and C functions, caught at various depths."""

    def f(n):
        if n == 0:
            raise ValueError(n)
        try:
            f(n - 1)
        finally:
            len("x")

    for i in range(4):
        try:
            f(i)
        except ValueError:
            pass
    for bad in (
        lambda: int("x"),
        lambda: {}["a"],
        lambda: [].pop(),
        lambda: "".join([1]),
        lambda: len(3),
        lambda: getattr(3, "zz"),
        lambda: next(iter([])),
        lambda: str.upper(3),
        lambda: list.append(3, 4),
        lambda: str.upper(),
        lambda: f(),
        lambda: f(1, 2, 3),
        lambda: sorted([1, "a"]),
        lambda: (lambda: 1 / 0)(),
    ):
        try:
            bad()
        except Exception:
            pass

    class E:
        def __enter__(self):
            return self

        def __exit__(self, *a):
            return True

    with E():
        raise KeyError
    with E():
        [].index(3)


def objects():
    """Methods of built-in, derived and Python types, called in every way there is."""

    class L(list):
        def append(self, x):
            super().append(x)

        def __getattr__(self, n):
            return n

        def __repr__(self):
            return "L" + super().__repr__()

    items = L()
    items.append(1)
    items.extend([2, 3])
    items.foo
    repr(items)
    list.append(items, 4)
    items.sort(key=lambda x: -x)
    items.__len__()
    L.append(items, 5)
    str.maketrans("a", "b")
    dict.fromkeys("abc")
    bytes.fromhex("00")
    int.from_bytes(b"ab", "big")
    "a{}".format(1)
    "%s" % items
    f"{items!r}"
    sorted([3, 1, 2], key=lambda v: v)
    max([1, 2], key=abs)
    list(map(len, ["a", "b"]))
    list(filter(None, [1, 0]))
    isinstance(3, int)
    hash("a")
    print(end="", file=sys.stderr)
    vars(objects)
    type("T", (), {"f": lambda s: 1})().f()
    args = ([1, 2],)
    len(*args)
    (lambda *a, **k: 1)(*args, z=3)
    "".join(*[["a"]])
    [].append(*[1])
    dict(**{"a": 1})
    max(*[1, 2])
    print(*[], end="", file=sys.stderr)
    import functools
    import operator

    functools.partial(len, "abc")()
    functools.reduce(operator.add, [1, 2, 3])
    operator.itemgetter(1)([1, 2])
    operator.methodcaller("upper")("a")

    @functools.lru_cache(None)
    def fibc(n):
        return n if n < 2 else fibc(n - 1) + fibc(n - 2)

    fibc(20)
    fibc.cache_clear()

    @functools.total_ordering
    class C:
        def __init__(self, v):
            self.v = v

        def __lt__(self, o):
            return self.v < o.v

        def __eq__(self, o):
            return self.v == o.v

        def __hash__(self):
            return hash(self.v)

        @property
        def p(self):
            return len("a")

        @classmethod
        def c(cls):
            return cls(1)

        @staticmethod
        def s():
            return abs(1)

        def __del__(self):
            len("del")

    sorted([C(3), C(1), C(2)])
    C(1) >= C(2)
    C(1).p
    C.c()
    C.s()
    {C(1): 2}[C(1)]
    set([C(1), C(1)])

    def rec(n, *a):
        return 0 if n == 0 else 1 + rec(n - 1) if n % 2 else sum([rec(n - 1)])

    rec(60)
    exec("def q(): return len('a')\nq()")
    eval("len('abc')")
    compile("1+1", "x", "eval")
    __import__("json")
    import weakref

    x = C(1)
    w = weakref.ref(x, lambda r: len("w"))
    del x
    import copy

    copy.deepcopy({"a": [1, (2, {3})], "b": C(2)})


def asynchronous():
    """Coroutines, asynchronous generators and context managers, cancellation."""
    import asyncio

    class AM:
        async def __aenter__(self):
            await asyncio.sleep(0)
            return self

        async def __aexit__(self, *a):
            return True

    async def agen():
        for i in range(3):
            await asyncio.sleep(0)
            yield i

    async def worker(q, n):
        async for i in agen():
            q.append(i)
        async with AM():
            raise KeyError
        return [x async for x in agen()] + [n]

    async def main():
        q = []
        r = await asyncio.gather(*[worker(q, i) for i in range(5)])
        t = asyncio.ensure_future(asyncio.Event().wait())
        await asyncio.sleep(0)
        t.cancel()
        try:
            await t
        except asyncio.CancelledError:
            pass
        e = asyncio.Event()
        asyncio.get_running_loop().call_soon(e.set)
        await e.wait()
        qu = asyncio.Queue()
        [qu.put_nowait(i) for i in range(3)]
        while not qu.empty():
            await qu.get()
        return r

    loop = asyncio.new_event_loop()
    loop.slow_callback_duration = float("inf")  # in development mode, it says which callbacks take 0.1 s
    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def numeric():
    """NumPy: functions of C, of Python, and its dispatchers."""
    import numpy as np

    x = np.arange(100.0).reshape(10, 10)
    (x @ x.T).sum(axis=0)
    np.linalg.solve(x + np.eye(10), x)
    np.sort(x.ravel())[::-1]
    np.einsum("ij,jk", x, x)
    np.where(x > 3, x, 0).mean()
    np.concatenate([x, x])
    repr(x)
    np.random.default_rng(0).normal(size=3)
    np.vectorize(lambda v: v + 1)(x)
    np.pad(x, 1)
    np.save(__import__("io").BytesIO(), x)


def torch_step():
    """Three training steps of PyTorch."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2))
    opt = torch.optim.Adam(net.parameters())
    for _ in range(3):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 10)), torch.zeros(8, dtype=torch.long))
        loss.backward()
        opt.step()
