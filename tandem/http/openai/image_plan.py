"""Which images of a conversation are left out, and which are to be loaded meanwhile (API-186 … API-190). No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tandem.http.openai.images import BadImage, Geometry, ImageLimits, ImageRef, refusal

__all__ = ["ImagePlan", "first_over", "leaving"]


def leaving(rows: Sequence[int | None], newest: int, limits: ImageLimits) -> int:
    """How many of the oldest images leave (API-187 … API-189), as far as `rows` tell.

    `rows` has an entry an image, oldest first, None where its rows are not known yet; the last `newest` of them are
    the newest message's own and stay. Leaving goes by whole steps of half the cap, counted from the conversation's
    start, so that the head of the prompt stays the same for several turns.
    """
    earlier = len(rows) - newest
    count = _whole_steps(len(rows) - limits.max_images, limits, earlier)
    used = 0
    for index in (*range(earlier, len(rows)), *reversed(range(count, earlier))):
        known = rows[index]
        used += 1 if known is None else known  # no image has less than a row
        if used > limits.max_rows and index < earlier:
            return _whole_steps(index + 1, limits, earlier)
        if known is None:
            break
    return count


def _whole_steps(excess: int, limits: ImageLimits, earlier: int) -> int:
    step = max(1, limits.max_images // 2)
    return min(-(-max(0, excess) // step) * step, earlier)


def first_over(rows: Sequence[int | None], limits: ImageLimits) -> int | None:
    """Of the newest message's images the first that is over a cap (API-186), as far as their rows are known."""
    if len(rows) > limits.max_images:
        return limits.max_images
    used = 0
    for index, known in enumerate(rows):
        if known is None:
            return None
        used += known
        if used > limits.max_rows:
            return index
    return None


class ImagePlan:
    """Which images are to be loaded, and when: nothing is begun that may yet turn out to be left out (API-190).

    `ready` gives the images to begin with now, `loaded` takes what each of them turned out to be. All of the newest
    message's begin at once; an earlier one begins when the newer ones leave it a row, whatever they turn out to be. So
    only the first that goes over, and what a whole step takes along, have been loaded in vain, and no order of arrival
    changes a thing.
    """

    def __init__(self, refs: Sequence[ImageRef], n_messages: int, limits: ImageLimits, geometry: Geometry) -> None:
        """`n_messages` tells which message is the newest. Raises a 400 when it alone holds too many images."""
        self._refs = refs
        self._limits = limits
        self._most_rows = geometry.most_rows
        self._rows: list[int | None] = [None] * len(refs)
        self._newest = sum(ref.message == n_messages - 1 for ref in refs)
        self._earlier = len(refs) - self._newest
        self._order = [*range(self._earlier, len(refs)), *reversed(range(self._earlier))]
        self._begun = 0
        self._refuse_over()

    @property
    def left_out(self) -> int:
        """How many of the oldest images are left out, as far as is known; final once nothing is ready or begun."""
        return leaving(self._rows, self._newest, self._limits)

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows of the images that stay, oldest first; all are known at the end."""
        return tuple(rows for rows in self._rows[self.left_out :] if rows is not None)

    @property
    def over(self) -> int | None:
        """The image that is over a cap in the newest message alone."""
        over = first_over(self._rows[self._earlier :], self._limits)
        return None if over is None else self._earlier + over

    @property
    def goes_on(self) -> bool:
        """Whether images may begin that have not; they stand before all that have."""
        return self._begun < len(self._order) and self._order[self._begun] >= self.left_out

    def ready(self) -> Iterator[int]:
        """Images that begin to be loaded now; each is given once."""
        while self._begun < len(self._order) and self._may_begin(self._order[self._begun]):
            self._begun += 1
            yield self._order[self._begun - 1]

    def _may_begin(self, index: int) -> bool:
        if index >= self._earlier:
            return True
        if index < self.left_out:
            return False
        begun = [self._rows[each] for each in self._order[: self._begun]]
        most = sum(self._most_rows if rows is None else rows for rows in begun)
        return None not in begun or most < self._limits.max_rows

    def loaded(self, index: int, rows: int) -> None:
        """The image has so many rows. Raises a 400 when the newest message alone is over the cap."""
        self._rows[index] = rows
        self._refuse_over()

    def _refuse_over(self) -> None:
        if self.over is None:
            return
        limits = self._limits
        by_count = self.over - self._earlier == limits.max_images
        unit = f"{limits.max_images} images" if by_count else f"{limits.max_rows:,} rows of images"
        raise refusal(self._refs[self.over], BadImage(f"is one too many: a message may hold {unit}"))
