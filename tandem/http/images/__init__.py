"""From the images of a request to pixels: the fenced fetch, the decoding, and what runs both for one request."""

from tandem.http.images.load import ImageLoader

__all__ = ["ImageLoader"]
