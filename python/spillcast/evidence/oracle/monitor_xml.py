"""SQL Monitor's report in XML, by itself or within an active report (HTML), packed or not."""

import base64
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spillcast.errors import EvidenceIncomplete, EvidenceUnknown
from spillcast.evidence.choice import Selection
from spillcast.evidence.counts import Counts
from spillcast.evidence.oracle.monitored import Line, Monitored, picked
from spillcast.evidence.text import text_of
from spillcast.gate import COUNT_MAX, TEXT_BYTES_MAX, damaged, xml_of
from spillcast.recording.event_names import OPS
from spillcast.redaction import struck_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

HOW = (
    "make it with: dbms_sqltune.report_sql_monitor(sql_id => '...', type => 'XML', "
    "report_level => 'ALL'), or type => 'ACTIVE'"
)
_PACKED = re.compile(
    r"<report\b[^>]{,2000}\bencode=\"base64\"[^>]{,2000}\bcompress=\"zlib\"[^>]{,2000}>"
)
_BEGIN, _END = "<sql_monitor_report", "</sql_monitor_report>"


def read(paths: Sequence[Path], selection: Selection) -> Counts:
    """The figures of a report. InputError where it is cut or damaged."""
    (path,) = paths
    text = text_of(path, HOW)
    if packed := _PACKED.search(text):
        text = _unpacked(text[packed.end() :].partition("</report>")[0], path)
    *parts, rest = text.split(_END)
    reports = [part[part.find(_BEGIN) :] + _END for part in parts if _BEGIN in part]
    if not reports or _BEGIN in rest:
        raise EvidenceUnknown(f"{path}: holds no whole sql_monitor_report", HOW)
    executions = [_monitored(path, xml_of(report, path, HOW)) for report in reports]
    return picked(path, executions, selection)


def _unpacked(content: str, path: Path) -> str:
    """What base64 and zlib have packed, after the report's name."""
    packed = re.sub(r"<report_id>.*?</report_id>|\s+", "", content, flags=re.DOTALL)
    try:
        inner = zlib.decompressobj()
        unpacked = inner.decompress(base64.b64decode(packed, validate=True), TEXT_BYTES_MAX)
    except (ValueError, zlib.error) as error:
        raise damaged(path, f"the embedded report cannot be unpacked: {error}", HOW) from error
    if not inner.eof:
        raise damaged(path, "the embedded report is cut, or too long to be read", HOW)
    return unpacked.decode(errors="replace")


def _monitored(path: Path, report: "Element") -> Monitored:
    target, stats = report.find("target"), report.find("stats")
    if target is None or stats is None:
        raise EvidenceIncomplete(f"{path}: it lacks its target or its stats", HOW)
    totals = _stats(stats)
    text = target.findtext("sql_fulltext")
    return Monitored(
        path=path,
        sql_id=target.get("sql_id"),
        exec_id=target.get("sql_exec_id"),
        plan=target.get("sql_plan_hash") or target.findtext("plan_hash"),
        sql_text=None if text is None else struck_text(text),
        elapsed_s=max(float(target.findtext("duration") or "0"), 0.0),
        database_s=totals.get("elapsed_time", 0) / 1e6,
        cpu_s=totals.get("cpu_time", 0) / 1e6,
        io_s=totals.get("user_io_wait_time", 0) / 1e6,
        requests={op: totals.get(f"{op}_reqs", 0) for op in OPS},
        bytes={op: totals.get(f"{op}_bytes", 0) for op in OPS},
        lines=[_line(element) for element in report.iterfind("plan_monitor/operation")],
        running=(target.findtext("status") or "").startswith("EXECUTING"),
    )


def _line(operation: "Element") -> Line:
    stats = operation.find("stats")
    known = {} if stats is None else _stats(stats)
    samples: dict[str, int] = {}
    for activity in operation.iterfind("activity_sampled/activity"):
        event = activity.get("event") or activity.get("class") or "Cpu"
        samples[event] = samples.get(event, 0) + _count(activity.text)
    return Line(
        operation=f"{operation.get('name', '')} {operation.get('options', '')}".strip(),
        reads=known.get("read_reqs", 0),
        read_bytes=known.get("read_bytes", 0),
        writes=known.get("write_reqs", 0),
        write_bytes=known.get("write_bytes", 0),
        temp_bytes=max(known.get("temp", 0), known.get("max_temp", 0)),
        samples=samples,
    )


def _stats(stats: "Element") -> dict[str, int]:
    """Those that are numbers; others are times of day."""
    texts = {its.get("name", ""): (its.text or "").strip() for its in stats.iterfind("stat")}
    return {name: _count(text) for name, text in texts.items() if re.fullmatch(r"\d+", text)}


def _count(text: str | None) -> int:
    value = int((text or "0").strip())
    if not 0 <= value <= COUNT_MAX:
        raise ValueError(f"{value} is not a count")
    return value
