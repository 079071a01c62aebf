"""Feeds: what happens, told to whoever watches: as server-sent events or over a websocket, in the same words."""
