"""Loads the images of one request: bytes, header checks, what is left out, pixels (API-183 … API-194)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import trio

from tandem.actors.kit import Blocking
from tandem.config import Settings
from tandem.engine.text.images import NO_IMAGES, LoadedImages, Picture
from tandem.http.images.addresses import is_public, is_unicast
from tandem.http.images.decode import decode, measure
from tandem.http.images.fetch import Fetcher
from tandem.http.openai.errors import ApiError
from tandem.http.openai.image_plan import ImagePlan
from tandem.http.openai.images import (
    BadImage,
    Geometry,
    ImageLimits,
    ImageRef,
    data_url_bytes,
    is_data_url,
    refusal,
)

__all__ = ["ImageLoader"]

AT_ONCE = 4
"""Images of one request that are loaded at the same time."""
PURPOSE = "image"
"""The limiter of `Blocking` that the work in threads counts under."""


class Fetches(Protocol):
    """What gets https URLs: a `Fetcher`."""

    async def fetch(self, url: str) -> bytes:
        """The body. Raises `BadImage`."""


class ImageLoader:
    """Loads images for every request of a service."""

    def __init__(self, limits: ImageLimits, geometry: Geometry, fetcher: Fetches | None, blocking: Blocking) -> None:
        """Without a `fetcher` data: URLs alone are taken (`--image-https off`)."""
        self.limits = limits
        self.geometry = geometry
        self.fetcher = fetcher
        self.blocking = blocking

    @classmethod
    def from_settings(cls, settings: Settings, geometry: Geometry, blocking: Blocking) -> ImageLoader:
        limits = ImageLimits.from_settings(settings)
        fetcher = None
        if settings.image_https:
            fetcher = Fetcher(
                max_bytes=limits.max_bytes,
                timeout=settings.image_fetch_timeout,
                is_allowed=is_unicast if settings.image_https_private else is_public,
            )
        return cls(limits, geometry, fetcher, blocking)

    async def load(
        self, refs: Sequence[ImageRef], n_messages: int, take: Callable[[int], None] | None = None
    ) -> LoadedImages:
        """The images of a message list of `n_messages`. Raises `ApiError`: a 400 that names an image.

        Of several bad ones it is the first of the list, those that cannot be told from their headers after the
        others; no order of arrival changes it. `take` is told the size of each image's bytes as soon as they are
        there, and may refuse by an `ApiError`.
        """
        if not refs:
            return NO_IMAGES
        return await _Loading(self, refs, n_messages, take).run()


class _Loading:
    """One request's images on their way."""

    def __init__(
        self, loader: ImageLoader, refs: Sequence[ImageRef], n_messages: int, take: Callable[[int], None] | None
    ) -> None:
        self._loader = loader
        self._refs = refs
        self._take = take
        self._plan = ImagePlan(refs, n_messages, loader.limits, loader.geometry)
        self._limiter = trio.CapacityLimiter(AT_ONCE)
        self._data: dict[int, bytes] = {}
        self._scopes: dict[int, trio.CancelScope] = {}
        self._failures: dict[int, ApiError] = {}

    async def run(self) -> LoadedImages:
        async with trio.open_nursery() as nursery:
            self._go_on(nursery)
        if self._failures:
            raise self._failures[min(self._failures)]
        left_out = self._plan.left_out
        pictures = [await self._decode(index) for index in range(left_out, len(self._refs))]
        return LoadedImages(left_out, tuple(pictures), self._plan.rows)

    def _go_on(self, nursery: trio.Nursery) -> None:
        """Begin what is settled; after a failure end what stands behind it, once nothing before it is to begin."""
        for index in self._plan.ready():
            self._scopes[index] = trio.CancelScope()
            nursery.start_soon(self._load, index, nursery)
        if self._failures and not self._plan.goes_on:
            for index, scope in self._scopes.items():
                if index > min(self._failures):
                    scope.cancel()

    async def _load(self, index: int, nursery: trio.Nursery) -> None:
        """One image's bytes and rows."""
        with self._scopes[index]:
            try:
                async with self._limiter:
                    self._data[index], rows = await self._read(self._refs[index])
            except ApiError as error:
                self._failures[index] = error
            else:
                self._settle(index, rows)
            self._go_on(nursery)

    def _settle(self, index: int, rows: int) -> None:
        try:
            self._plan.loaded(index, rows)
        except ApiError as error:
            assert self._plan.over is not None
            self._failures[self._plan.over] = error

    async def _read(self, ref: ImageRef) -> tuple[bytes, int]:
        loader = self._loader
        try:
            data = await self._bytes(ref.url)
            if self._take is not None:
                self._take(len(data))
            return data, await loader.blocking.run(PURPOSE, measure, data, loader.limits, loader.geometry)
        except BadImage as bad:
            raise refusal(ref, bad) from None

    async def _bytes(self, url: str) -> bytes:
        loader = self._loader
        if is_data_url(url):
            return await loader.blocking.run(PURPOSE, data_url_bytes, url, loader.limits.max_bytes)
        if loader.fetcher is None:
            raise BadImage("is an https: URL; this server takes data: URLs alone (--image-https off)")
        return await loader.fetcher.fetch(url)

    async def _decode(self, index: int) -> Picture:
        try:
            return await self._loader.blocking.run(PURPOSE, decode, self._data.pop(index))
        except BadImage as bad:
            raise refusal(self._refs[index], bad) from None
