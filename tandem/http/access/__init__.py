"""Who may do what: decided from a request's method, path, headers and peer, without I/O."""
