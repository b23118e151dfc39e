"""The answer of a page in a sentence or two, as a person would say it."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from spillcast.document import read
from spillcast.forecast.result import Forecast
from spillcast.forecast.verdict import verdict
from spillcast.profile.timeline import READ, WRITE
from spillcast.recording.event_names import OPS
from spillcast.recording.postgres_meta import Statement
from spillcast.report.forecast import statement_text
from spillcast.report.html.charts.storages import alone
from spillcast.report.html.charts.sweeps import sizes_words
from spillcast.report.html.material import AGAIN, Material
from spillcast.report.html.sections import servers
from spillcast.units import (
    format_bytes,
    format_count,
    format_duration,
    interval_name,
    parse_duration_s,
)


def ranked(forecasts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """From the fastest to the slowest, refused ones last."""
    return sorted(forecasts, key=document_rank_s)


def document_rank_s(forecast: Mapping[str, Any]) -> float:
    """What the document of a forecast is ranked by: as ``forecast.verdict.rank_s``."""
    if forecast["forecast_s"] is None:
        return float("inf")
    return float(max(forecast["forecast_s"], forecast.get("without_cache_s") or 0.0))


def answer(material: Material) -> list[str]:
    """The sentences: of the first kind of material that gives one."""
    for documents, say in (
        (material.forecasts, _of_forecasts),
        (material.servers, servers.answers),
        (material.fleets, _of_fleet),
        (material.sweeps, _of_sweep),
        (material.caches, _of_cache),
        (material.verifications, _of_verification),
        (material.runs, _of_run),
        (material.profiles, _of_profile),
        (material.storages, _of_storage),
    ):
        if documents:
            return say(documents)
    return ["There is nothing to show."]


def refusal(forecast: Mapping[str, Any]) -> str:
    """Why there is no number."""
    return f"There is no forecast for {place(forecast['target'])}: {forecast['refused']}."


def place(target: str) -> str:
    """A target as it is spoken of: wishes and rows of the catalogue in words."""
    kind, _, value = target.partition(":")
    if kind == "latency":
        return f"storage that takes {format_duration(parse_duration_s(value))} an operation"
    words: dict[str, str] = {
        "factor": f"storage {value} times as fast",
        "catalogue": value,
    }
    return words.get(kind, target)


def _of_forecasts(forecasts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The verdict on each query, and whose it is."""
    said: list[str] = []
    for baseline_s in dict.fromkeys(one["baseline_s"] for one in forecasts):
        of_it = [one for one in forecasts if one["baseline_s"] == baseline_s]
        said += verdict([read(Forecast, one, "a forecast", AGAIN) for one in of_it]).sentences
        if statement := of_it[0].get("statement"):
            said.append(f"{statement_text(Statement(**statement))}.")
    return said


def _of_fleet(fleets: Sequence[Mapping[str, Any]]) -> list[str]:
    said = []
    for fleet in fleets:
        statements = format_count(len(fleet["statements"]), "spilling statement")
        target = place(fleet["target"])
        if not fleet["saved_s"] or fleet["saved_s"] <= 0:
            said.append(f"On {target} nothing would be saved for {statements}.")
            continue
        low, high = map(format_duration, fleet["saved_interval_s"])
        said.append(
            f"{target} saves {format_duration(fleet['saved_s'])} of the time of {statements}, "
            f"{interval_name(fleet['confidence'])} {low} to {high}."
        )
        if fleet["statements_for_most"]:
            most = f"{fleet['most']:.0%}".replace("%", " %")
            said.append(f"{fleet['statements_for_most']:,} of them bring {most} of it.")
    return said


def _of_sweep(sweeps: Sequence[Mapping[str, Any]]) -> list[str]:
    return [_of_sizes(one) if one["kind"] == "io-size" else _of_memory(one) for one in sweeps]


def _of_sizes(sweep: Mapping[str, Any]) -> str:
    best = sweep["best"]
    worst = max(sweep["rows"], key=lambda row: row["total_s"])
    times = f"{worst['total_s'] / best['total_s']:.2g} times" if best["total_s"] else ""
    return (
        f"On {sweep['storage']} temp I/O is fastest in operations of {sizes_words(best)}: about "
        f"{format_duration(best['total_s'])} for all of it, {times} as fast as with "
        f"{sizes_words(worst)}."
    )


def _of_memory(sweep: Mapping[str, Any]) -> str:
    points = [point for point in sweep["points"] if point["elapsed_s"] is not None]
    best = min(points, key=lambda point: (point["elapsed_s"], point["memory_bytes"]))
    # The least memory within a tenth of the fastest: more buys next to nothing.
    enough = [p for p in points if p["elapsed_s"] <= 1.1 * best["elapsed_s"]]
    least = min(enough, key=lambda point: point["memory_bytes"])
    worst = max(points, key=lambda point: point["elapsed_s"])
    return (
        f"With {format_bytes(least['memory_bytes'])} of memory on {least['storage']} this query "
        f"takes about {format_duration(least['elapsed_s'])}, and more memory hardly helps; with "
        f"{format_bytes(worst['memory_bytes'])} on {worst['storage']} it takes "
        f"{format_duration(worst['elapsed_s'])}."
    )


def _of_cache(caches: Sequence[Mapping[str, Any]]) -> list[str]:
    said = []
    for cache in caches:
        curve = cache["curve"]
        data = format_bytes(curve["data_bytes"])
        if curve["enough_bytes"] is None:
            said.append(f"No flash cache helps: nothing of the {data} is read again.")
            continue
        enough = format_bytes(curve["enough_bytes"])
        said.append(
            f"A flash cache of {enough} would serve nine in ten of the reads that any cache of "
            f"these {data} could serve."
        )
        if cache["cache"] is not None and cache["cache"]["runs"]:
            last = cache["cache"]["runs"][-1]["hit_ratio"]
            said.append(
                f"With {format_bytes(cache['cache']['size_bytes'])}, as was asked, "
                f"{last:.0%} of the reads would hit.".replace("%", " %")
            )
    return said


def _of_verification(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    cases = [case for document in documents for case in document["cases"]]
    given = [case for case in cases if case["forecast"]["forecast_s"] is not None]
    if not given:
        return [f"No forecast in {format_count(len(cases), 'case')}."]
    errors = [abs(c["forecast"]["forecast_s"] / c["measured_to_s"] - 1) for c in given]
    held = sum(
        c["forecast"]["interval_s"][0] <= c["measured_to_s"] <= c["forecast"]["interval_s"][1]
        for c in given
    )
    return [
        f"The median error of {format_count(len(given), 'forecast')} was "
        f"{100 * median(errors):.1f} % when the queries were then run there; the measured time was "
        f"inside {held} of {format_count(len(given), 'interval')}."
    ]


def _of_run(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    run = runs[0]
    line = run["timeline"]
    totals = line["totals_s"]
    sessions, temp_s = line["sessions"], totals.get(READ, 0.0) + totals.get(WRITE, 0.0)
    whole = format_duration(run["elapsed_s"])
    if not temp_s:
        return [f"This run took {whole}, and no temp I/O was seen."]
    share = 100 * temp_s / run["time_s"]
    of = "it"
    if sessions > 1:
        of = f"the {format_duration(run['time_s'])} of its {sessions} {run['sessions_are']}"
    return [f"This run took {whole}, and {share:.0f} % of {of} went into temp files."]


def _of_profile(profiles: Sequence[Mapping[str, Any]]) -> list[str]:
    profile = profiles[0]
    busy = [row for row in profile["rows"] if not row.get("idle")]
    if not busy:
        return ["The profile holds no time."]
    if profile.get("words"):
        return list(profile["words"])
    first = busy[0]
    name = ", ".join(str(first.get(key)) for key in profile["by"])
    share = f", {100 * first['share']:.0f} % of the time" if first.get("share") else ""
    return [
        f"Most of the time goes into {name}: {format_duration(first['total_us'] / 1e6)}{share}."
    ]


def _of_storage(storages: Sequence[Mapping[str, Any]]) -> list[str]:
    said = []
    for storage in storages:
        # Of a grid, and of a row of the catalogue, sizes are no load's: the smallest is told.
        mixed = storage["source"] not in ("grid", "catalogue")
        means = []
        for op in OPS:
            of_op = [group for group in storage["groups"] if group["op"] == op]
            groups = of_op if mixed else alone(of_op)[:1]
            if count := sum(group["count"] for group in groups):
                mean_s = sum(group["total_ns"] for group in groups) / count / 1e9
                size = "" if mixed else f" of {format_bytes(groups[0]['size_class_bytes'])}"
                means.append(f"a {op}{size} takes {format_duration(mean_s)} in the mean")
        said.append(f"On {storage['name']} {' and '.join(means) or 'nothing was measured'}.")
    return said
