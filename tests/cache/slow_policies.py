"""The policies as their papers say them, slow and obvious: lists with the newest at the end."""


class Lru:
    """Evicts the least recently used line."""

    def __init__(self, lines):
        self.lines, self.cached = lines, []

    def access(self, key):
        hit = key in self.cached
        if hit:
            self.cached.remove(key)
        elif len(self.cached) == self.lines:
            self.cached.pop(0)
        self.cached.append(key)
        return hit

    def discard(self, key):
        if key in self.cached:
            self.cached.remove(key)


class Fifo(Lru):
    """Evicts the line that came first."""

    def access(self, key):
        if key in self.cached:
            return True
        if len(self.cached) == self.lines:
            self.cached.pop(0)
        self.cached.append(key)
        return False


class Sieve:
    """Algorithm 1 of Zhang et al., NSDI 2024; the hand is the key it points to, or None."""

    def __init__(self, lines):
        self.lines, self.cached, self.visited, self.hand = lines, [], set(), None

    def access(self, key):
        if key in self.cached:
            self.visited.add(key)
            return True
        if len(self.cached) == self.lines:
            at = 0 if self.hand is None else self.cached.index(self.hand)
            while self.cached[at] in self.visited:
                self.visited.remove(self.cached[at])
                at = (at + 1) % len(self.cached)
            self.hand = self.cached[at + 1] if at + 1 < len(self.cached) else None
            self.cached.pop(at)
        self.cached.append(key)
        return False

    def discard(self, key):
        if key in self.cached:
            at = self.cached.index(key)
            if self.hand == key:
                self.hand = self.cached[at + 1] if at + 1 < len(self.cached) else None
            self.cached.pop(at)
            self.visited.discard(key)


class S3Fifo:
    """Algorithm 1 of Yang et al., SOSP 2023, filled as the authors' simulator fills it."""

    def __init__(self, lines):
        self.lines, self.small_max = lines, max(lines // 10, 1)
        self.small, self.main, self.ghost, self.uses = [], [], [], {}
        self.full_once = False

    def access(self, key):
        if key in self.small or key in self.main:
            self.uses[key] = min(self.uses[key] + 1, 3)
            return True
        known = key in self.ghost
        if known:
            self.ghost.remove(key)
        while len(self.small) + len(self.main) >= self.lines:
            self.evict()
        fills = not self.full_once and len(self.small) >= self.small_max
        (self.main if known or fills else self.small).append(key)
        self.uses[key] = 0
        return False

    def discard(self, key):
        for queue in (self.small, self.main, self.ghost):
            if key in queue:
                queue.remove(key)

    def evict(self):
        self.full_once = True
        if len(self.main) > self.lines - self.small_max or not self.small:
            while self.main:
                key = self.main.pop(0)
                if self.uses[key] == 0:
                    return
                self.uses[key] -= 1
                self.main.append(key)
        while self.small:
            key = self.small.pop(0)
            if self.uses[key] > 1:
                self.uses[key] = 0
                self.main.append(key)
                continue
            self.ghost.append(key)
            if len(self.ghost) > self.lines - self.small_max:
                self.ghost.pop(0)
            return


class Arc:
    """Figure 4 of Megiddo and Modha, FAST 2003."""

    def __init__(self, lines):
        self.lines, self.p = lines, 0
        self.t1, self.t2, self.b1, self.b2 = [], [], [], []

    def replace(self, in_b2):
        if self.t1 and (len(self.t1) > self.p or (in_b2 and len(self.t1) == self.p)):
            self.b1.append(self.t1.pop(0))
        else:
            self.b2.append(self.t2.pop(0))

    def access(self, key):
        if key in self.t1 or key in self.t2:
            (self.t1 if key in self.t1 else self.t2).remove(key)
            self.t2.append(key)
            return True
        if key in self.b1:
            self.p = min(self.p + max(len(self.b2) / len(self.b1), 1), self.lines)
            self.replace(False)
            self.b1.remove(key)
            self.t2.append(key)
        elif key in self.b2:
            self.p = max(self.p - max(len(self.b1) / len(self.b2), 1), 0)
            self.replace(True)
            self.b2.remove(key)
            self.t2.append(key)
        else:
            self.make_room()
            self.t1.append(key)
        return False

    def make_room(self):
        if len(self.t1) + len(self.b1) == self.lines:
            if len(self.t1) < self.lines:
                self.b1.pop(0)
                self.replace(False)
            else:
                self.t1.pop(0)
            return
        known = len(self.t1) + len(self.t2) + len(self.b1) + len(self.b2)
        if known >= self.lines:
            if known == 2 * self.lines:
                self.b2.pop(0)
            self.replace(False)


POLICIES = {"lru": Lru, "fifo": Fifo, "sieve": Sieve, "s3fifo": S3Fifo, "arc": Arc}


class Keep:
    """Exadata's rules over lists of (key, object, query, last read), the oldest first."""

    def __init__(self, lines, kept=(), temp_share=1.0, unread_s=86400):
        self.lines, self.kept, self.unread_s = lines, kept, unread_s
        self.temp_max = int(lines * temp_share)
        self.lists = {"keep": [], "temp": [], "other": []}

    def access(self, row):
        """Whether a row was a hit; it has key, time_s, object, query, class and ends_query."""
        keep = self.lists["keep"]
        keep[:] = [line for line in keep if row.time_s - line[3] <= self.unread_s]
        hit = False
        for lines in self.lists.values():
            for at, line in enumerate(lines):
                if line[0] == row.key:
                    hit = True
                    del lines[at]
                    lines.append((*line[:3], row.time_s))
                    break
        if not hit:
            self.admit(row)
        if row.ends_query:
            temp = self.lists["temp"]
            temp[:] = [line for line in temp if line[2] != row.query]
        return hit

    def admit(self, row):
        if row.cls == "temp write":
            name, makes_room = "temp", ("other",)
        elif row.cls == "temp read":
            return
        elif row.object in self.kept:
            name, makes_room = "keep", ("other", "temp", "keep")
        elif row.cls == "read":
            name, makes_room = "other", ("other",)
        else:
            return
        if name == "temp" and len(self.lists["temp"]) >= self.temp_max:
            return
        if sum(map(len, self.lists.values())) >= self.lines:
            full = next((self.lists[n] for n in makes_room if self.lists[n]), None)
            if full is None:
                return
            full.pop(0)
        self.lists[name].append((row.key, row.object, row.query, row.time_s))


def stack_distances(keys):
    """For each request, the number of other lines used since its line; None for a first use."""
    stack, distances = [], []
    for key in keys:
        distances.append(len(stack) - 1 - stack.index(key) if key in stack else None)
        if key in stack:
            stack.remove(key)
        stack.append(key)
    return distances
