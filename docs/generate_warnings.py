"""The page of warnings, of explained.toml: ``python docs/generate_warnings.py`` writes it."""

from pathlib import Path

from spillcast.forecast.caveat import explanations

PAGE = Path(__file__).with_name("warnings.md")
LABELS = {"oracle": "Oracle", "postgresql": "PostgreSQL", "spark": "Spark"}
HEAD = """# Warnings

What a warning means, by the code in brackets behind it, which is `code` in JSON. A warning does not
stop a forecast: it says why the number may be off, or its interval wide. `--details` adds the
figures of your case.
"""


def page() -> str:
    """All of them in the order of the alphabet."""
    parts = [HEAD]
    for code, about in sorted(explanations().items()):
        title = f"{about.title[0].upper()}{about.title[1:]}"
        steps = {"Next": about.next_step}
        steps |= {f"Next for {LABELS[name]}": step for name, step in about.by_engine.items()}
        parts += [f"## {code}\n\n*{title}.* {about.cause}\n"]
        parts += [f"{name}: {step}\n" for name, step in steps.items()]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
