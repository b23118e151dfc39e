"""``spillcast storage``: lists, shows and compares storages."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spillcast.cli.usage import Answer, AnswerCommand, command_group
from spillcast.recording.event_names import OPS

if TYPE_CHECKING:
    from spillcast.storage import Storage


STORAGE_HELP = "A storage.json, a recording, or catalogue:NAME."


def add_to(application: typer.Typer) -> None:
    """Register the verb with its commands."""
    group = command_group(application, "storage", "List, show and compare storages.")
    group.command("list", cls=AnswerCommand)(list_storages)
    group.command("managed", cls=AnswerCommand)(managed)
    group.command("show", cls=AnswerCommand)(show)
    group.command("compare", cls=AnswerCommand)(compare)


def list_storages(
    pattern: Annotated[
        str | None, typer.Argument(help="Part of a name or description, such as gp3 or 'aws-i4*'.")
    ] = None,
) -> Answer:
    """List the storages of the catalogue.

    Example: spillcast storage list aws
    """
    from spillcast.report.storages import catalogue_document, catalogue_page
    from spillcast.storage.catalogue import matching, rows

    listed = rows() if pattern is None else matching(pattern)
    return Answer(lambda: catalogue_document(listed), lambda: catalogue_page(listed))


def managed() -> Answer:
    """List managed databases: their storage, and whether temp files can move.

    Example: spillcast storage managed
    """
    from spillcast.report.storages import managed_document, managed_page
    from spillcast.storage.catalogue.managed import managed_databases

    services = managed_databases()
    return Answer(lambda: managed_document(services), lambda: managed_page(services))


def show(
    storage: Annotated[str, typer.Argument(help=STORAGE_HELP)],
    op: Annotated[Literal["read", "write"] | None, typer.Option(help="Only this op.")] = None,
    size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Histogram of this size, such as 256K.")
    ] = None,
) -> Answer:
    """Show a storage: latencies, servers and ceilings.

    Peaks of the histogram are named. Sizes that were not measured are estimated from the others.

    Example: spillcast storage show nvme.json --op read --size 256K
    """
    from spillcast.errors import OptionInvalid
    from spillcast.report.storage import show_page
    from spillcast.storage.description import described
    from spillcast.storage.target import resolve_storage
    from spillcast.units import parse_bytes

    shown = resolve_storage(storage)
    size_bytes = None if size is None else parse_bytes(size, "--size")
    if size_bytes == 0:
        raise OptionInvalid("--size 0: no operation has this size", "write for example 256K")
    ops = _ops(storage, shown, op)
    groups = [group for op_ in ops for group in shown.of(op_) if group.count]
    groups = [group for group in groups if size_bytes in (None, group.size_class_bytes)]
    return Answer(lambda: described(shown, groups), lambda: show_page(shown, ops, size_bytes))


def _ops(text: str, storage: "Storage", op: str | None) -> list[str]:
    """The ops to show. InputError if the storage has no figures for them."""
    from spillcast.errors import TargetIncomplete

    ops = [name for name in OPS if any(g.count for g in storage.of(name))]
    if op is not None and op not in ops:
        others = f"it has figures for {ops[0]}s" if ops else None
        raise TargetIncomplete(f"{text}: has no figures for {op}s", others)
    if not ops:
        raise TargetIncomplete(f"{text}: has no figures at all", "probe again")
    return ops if op is None else [op]


def compare(
    storages: Annotated[list[str], typer.Argument(help=f"Two or more. {STORAGE_HELP}")],
) -> Answer:
    """Compare storages with the first of them, by op, size and pattern.

    Sizes at which one of them was not measured are estimated from its others and marked.

    Example: spillcast storage compare disk.json nvme.json
    """
    from spillcast.errors import OptionMissing
    from spillcast.report.storages import comparison_page
    from spillcast.storage.description import compare as compare_storages
    from spillcast.storage.target import resolve_storage

    if len(storages) < 2:
        raise OptionMissing(
            f"{storages[0]}: there is nothing to compare it with", "name two storages or more"
        )
    compared = [resolve_storage(text) for text in storages]
    names = [storage.name for storage in compared]
    result = compare_storages(compared, names if len(set(names)) == len(names) else storages)
    return Answer(result.to_json, lambda: comparison_page(result))
