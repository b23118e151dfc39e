"""Many small cases as a single test, and cases that only `make nightly` runs."""

import functools
import inspect

import pytest


def nightly(*values):
    """These values as cases of ``pytest.mark.parametrize`` that only ``make nightly`` runs."""
    as_tuples = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*value, marks=pytest.mark.nightly) for value in as_tuples]


def cases(names, values):
    """As ``pytest.mark.parametrize``, but as a single test, for cases that take milliseconds.

    All cases run, also after one that fails or is skipped, which are named. None may change
    a fixture: each has a ``tmp_path`` of its own, and all other fixtures are shared.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    values = list(values)

    def decorate(test):
        @functools.wraps(test)
        def run(**fixtures):
            failures, skips = [], []
            for number, value in enumerate(values):
                arguments = dict(zip(names, value if len(names) > 1 else [value], strict=True))
                folder = {}
                if "tmp_path" in fixtures:
                    folder["tmp_path"] = fixtures["tmp_path"] / f"case-{number}"
                    folder["tmp_path"].mkdir()
                try:
                    test(**fixtures | folder | arguments)
                except (KeyboardInterrupt, pytest.exit.Exception):
                    raise
                except pytest.skip.Exception as skip:
                    skips.append(f"case {number}: {skip}")
                except BaseException as failure:
                    failure.add_note(f"case {number}, with {arguments}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(values)} cases", failures)
            if skips or not values:
                pytest.skip(f"{len(skips)} of {len(values)} cases; {'; '.join(skips)}")

        signature = inspect.signature(test)
        parameters = [value for name, value in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=parameters)
        return run

    return decorate
