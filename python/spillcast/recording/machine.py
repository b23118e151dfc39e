"""The machine and the process that were observed, as a recording's meta.json keeps them."""

import os
import platform
import re
from pathlib import Path

from spillcast.recording.memory import meminfo_bytes
from spillcast.recording.meta import Machine


def describe_machine() -> Machine:
    """CPUs, memory, kernel; what a page cache could hold."""
    memory = meminfo_bytes()
    return Machine(
        host=platform.node(),
        kernel=platform.release(),
        cpus=os.cpu_count(),
        memory_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        swap_bytes=memory.get("SwapTotal"),
    )


def command_of(pid: int) -> list[str] | None:
    """The arguments of a process, secrets struck out; None where it has ended."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return redact([os.fsdecode(part) for part in raw.split(b"\0") if part])


def redact(arguments: list[str]) -> list[str]:
    """Arguments without the secrets that command lines carry."""
    hidden = [re.sub(r"(://[^:/@\s]*:)[^@\s]*@", r"\1***@", text) for text in arguments]
    secret = r"(?i)((?:password|passwd|pwd|token|secret|api_?key)['\"]?\s*[=:]\s*)\S+"
    hidden = [re.sub(secret, r"\1***", text) for text in hidden]
    for i, text in enumerate(hidden[:-1]):
        if re.fullmatch(r"(?i)--?(password|passwd|pwd|token|secret)", text):
            hidden[i + 1] = "***"
    return hidden


def redact_text(text: str) -> str:
    """A statement or any other text without the secrets that it carries."""
    text = re.sub(
        r"(?i)\b(password|identified\s+by)(\s+)('(?:[^']|'')*'|\"[^\"]*\")", r"\1\2'***'", text
    )
    return redact([text])[0]
