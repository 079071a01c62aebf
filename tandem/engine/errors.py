"""What the engine raises. Nothing here knows of HTTP; the border that maps these to statuses is `tandem.http`."""

__all__ = ["BadInput", "CheckpointError", "EngineError", "NumericalError", "SlotDamaged"]


class EngineError(Exception):
    """A fault of the engine that ends one request; the next one is served normally (ENG-043)."""


class NumericalError(EngineError):
    """A row of logits holds NaN or no finite value; carries the position of the row (ENG-076)."""

    def __init__(self, position: int) -> None:
        super().__init__(f"no finite logit at position {position}")
        self.position = position


class SlotDamaged(EngineError):
    """The fault has left the slot's buffers in doubt: nothing is right there until its engine is rebuilt (SCH-056)."""


class CheckpointError(Exception):
    """A checkpoint cannot be served. The message is for the operator: it names the file and what is wrong with it."""


class BadInput(ValueError):
    """Client input that cannot be served: `param` is the path of the field at fault, the message says what to change.

    `code` is the machine-readable cause where the API has one (`context_length_exceeded`), else None.
    """

    def __init__(self, param: str | None, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
