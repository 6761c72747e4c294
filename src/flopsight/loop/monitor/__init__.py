"""`flopsight.monitor`: FLOPs, time, tokens, memory and energy of every step of a training run, while it trains."""
