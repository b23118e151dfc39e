"""``python -m spillcast``: the same as the command."""

from spillcast.cli import main

main()
