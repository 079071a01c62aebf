"""The session monitor: looks at every generation at four fixed points and may act there, from a closed list of acts."""
