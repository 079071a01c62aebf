"""Secrets of tool results, and the mask of an answer that repeats one (MEM-008 to MEM-013).

`kinds` says what a secret looks like, `scan` finds them in a conversation, `mask` hides them in an answer.
"""

from tandem.conductor.masking.mask import SecretMask, secret_mask
from tandem.conductor.masking.scan import Secret, SecretCache, secrets_of

__all__ = ["Secret", "SecretCache", "SecretMask", "secret_mask", "secrets_of"]
