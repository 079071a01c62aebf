"""The live view without its actor: what is seen of a request, and the event that is made of it. Sans-I/O."""
