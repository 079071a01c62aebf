"""OpenAI's wire format without I/O: request bodies in, typed requests out; deltas in, chunks and bodies out."""
