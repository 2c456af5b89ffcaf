"""Tasks in two worker processes of a local Dask cluster."""

from __future__ import annotations

from dask.distributed import Client


def primes(begin: int, end: int) -> int:
    """Count primes the slow way."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(max(begin, 2), end))


def main() -> None:
    with Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as client:
        parts = client.map(primes, range(0, 60_000, 500), range(500, 60_500, 500))
        print(sum(client.gather(parts)), "primes")


if __name__ == "__main__":
    main()
