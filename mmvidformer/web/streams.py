"""Streams of clients: which are open, and the process that each has."""

import math
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mmvidformer.web.pool import Pool
from mmvidformer.web.query import Asked
from mmvidformer.web.running_stream import open_stream
from mmvidformer.web.uploads import Refused

IDLE = 60.0  # seconds without a piece after which a stream ends if another one needs its place


@dataclass
class OpenStream:
    """A stream.

    Attributes:
        pool: Its process, alone.
        model: Name of the model.
        asked: Options.
        used: When it was used last.
    """

    pool: Pool
    model: str
    asked: Asked
    used: float = field(default_factory=time.monotonic)


class Streams:
    """The streams that are open, by key.

    Args:
        pools: One for each stream, of one process.
        idle: Seconds, see ``IDLE``.
    """

    def __init__(self, pools: Sequence[Pool], idle: float = IDLE) -> None:
        self.pools, self.idle = pools, idle
        self._streams: dict[str, OpenStream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    async def open(self, model: str, asked: Asked) -> str:
        """Begin a stream, and return its key, which is secret.

        Raises:
            UserError: If an option is wrong, or there are as many streams as there may be.
        """
        used = [stream.pool for stream in self._streams.values()]
        free = next((pool for pool in self.pools if pool not in used), None) or self._end_idle()
        key = secrets.token_urlsafe(16)
        self._streams[key] = OpenStream(free, model, asked)
        try:
            async for _ in free.ask(model, open_stream, key, asked):
                pass
        except BaseException:
            self.close(key)
            raise
        return key

    def get(self, key: str) -> OpenStream:
        """Return a stream that is used now."""
        if key not in self._streams:
            raise Refused(404, "there is no such stream, or it has ended")
        self._streams[key].used = time.monotonic()
        return self._streams[key]

    def close(self, key: str) -> None:
        """Forget a stream; its process ends it when the next one begins."""
        with suppress(KeyError):
            del self._streams[key]

    def _end_idle(self) -> Pool:
        for key, stream in list(self._streams.items()):
            if not stream.pool.inside and time.monotonic() - stream.used > self.idle:
                self.close(key)
                return stream.pool
        if not self.pools:
            raise Refused(404, "this server takes no streams; start it with --streams N")
        text = f"{len(self.pools)} streams are open already"
        raise Refused(503, text, math.ceil(self.idle))
