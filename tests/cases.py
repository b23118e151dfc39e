"""Many small cases as one test, where each takes milliseconds and needs no fixture."""

import functools

import pytest


def cases(names, values):
    """As ``pytest.mark.parametrize``, but one test: it runs all cases and names those that fail."""
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    def decorate(test):
        @functools.wraps(test)
        def run():
            failures = []
            for value in values:
                arguments = dict(zip(names, value if len(names) > 1 else [value], strict=True))
                try:
                    test(**arguments)
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"with {arguments}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(values)} cases", failures)

        del run.__wrapped__
        return run

    return decorate
