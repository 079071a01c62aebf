"""The tool-call codec: the calls in an answer's text, as they are written (section 14 of the HTTP API).

`pieces` is what it says. `xml`, with `xml_value` and `json_form`, reads the calls of models that write `<tool_call>`;
`pythonic` those of models that write a Python list. `schemas` and `values` give a parameter its schema's type.
"""

from tandem.engine.text.reading.calls.pieces import CallCodec, Piece, Text
from tandem.engine.text.reading.calls.pythonic import pythonic_calls
from tandem.engine.text.reading.calls.xml import xml_calls

__all__ = ["CallCodec", "Piece", "Text", "pythonic_calls", "xml_calls"]
