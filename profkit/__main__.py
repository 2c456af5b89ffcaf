"""``python -m profkit`` is the ``profkit`` command."""

from profkit.cli import main

if __name__ == "__main__":
    main()
