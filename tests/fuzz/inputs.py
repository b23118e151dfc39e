"""Inputs by number: a shape, the damage, and the command line that reads it."""

import random
import shutil
from collections import namedtuple
from pathlib import Path

from fuzz.mutate import mutated
from fuzz.trial import Outcome, attempt

#: On average, one in this many files is missing.
MISSING = 40
#: Nested lists, on which a parser without a limit ends in a traceback.
DEEP = 100_000
#: Inputs that once broke a reader: SHAPE/NUMBER/FILE.
BROKEN = Path(__file__).parent / "broken"

#: ``content`` replaces a file's, None for a missing file; ``file`` is None for undamaged input.
Input = namedtuple("Input", "shape file content command")


class Damaged:
    """All inputs of a seed, which are reproducible."""

    def __init__(self, root, shapes, seed):
        self._root, self._shapes, self._seed = root, shapes, seed

    def attempt(self, number):
        """Runs an input; returns its number and outcome."""
        return number, run(self._root / f"input-{number}", self[number])

    def __getitem__(self, number):
        draw = random.Random(f"{self._seed}/{number}")
        shape = draw.choice(self._shapes)
        file, command = draw.choice(shape.files), draw.choice(shape.commands)
        content = None
        if draw.randrange(MISSING):
            content = mutated(Path(file).name, (shape.folder / file).read_bytes(), draw)
        return Input(shape, file, content, command)


class Known:
    """Complete inputs, which must be answered; missing or cut files; inputs that once broke."""

    def __init__(self, root, shapes):
        self._root, self._inputs = root, []
        for shape in shapes:
            self._inputs += (Input(shape, None, None, command) for command in shape.commands)
            self._inputs += (*_cut(shape), *_broken(shape))

    def __len__(self):
        return len(self._inputs)

    def __getitem__(self, number):
        return self._inputs[number]

    def attempt(self, number):
        """Runs an input; returns its number and outcome."""
        item = self[number]
        result = run(self._root / f"input-{number}", item)
        if item.file is None and result.kind == "refused":
            result = Outcome("refused although whole", item.shape.name, result.words)
        return number, result


def _cut(shape):
    """Each file cut at several places, and replaced by nested lists."""
    for number, file in enumerate(shape.files):
        content = (shape.folder / file).read_bytes()
        command = shape.commands[number % len(shape.commands)]
        contents = [None, b"", content[:1], content[: len(content) // 2], content[:-5]]
        if file.endswith(".json"):
            contents += [b"[" * DEEP, b'{"x":' * DEEP, b"[" * DEEP + b"]" * DEEP]
        yield from (Input(shape, file, content, command) for content in contents)


def _broken(shape):
    """Each kept file with all command lines of its shape."""
    for kept in sorted((BROKEN / shape.name).glob("*")):
        for file in (path for path in kept.rglob("*") if path.is_file()):
            name, content = str(file.relative_to(kept)), file.read_bytes()
            yield from (Input(shape, name, content, command) for command in shape.commands)


def run(folder, item):
    """The outcome of an input, whose files are removed."""
    shutil.copytree(item.shape.folder, folder)
    try:
        if item.file is not None:
            (folder / item.file).unlink(missing_ok=True)
        if item.content is not None:
            (folder / item.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / item.file).write_bytes(item.content)
        return attempt(item.command, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sentence_of(item):
    """A description of an input."""
    return f"{item.shape.name}/{item.file or '*'}, {' '.join(map(str, item.command))[:90]}"


def keep(item, number, where):
    """Writes the damaged file as ``where``/SHAPE/NUMBER/FILE."""
    if item.content is not None:
        target = where / item.shape.name / str(number) / item.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(item.content)
