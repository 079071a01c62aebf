"""The measurements of `tandem bench`: the engine beside others, the service's own cost, where a token's time goes."""
