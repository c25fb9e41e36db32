"""What golden queries bring back: candidates at full depth, latency, determinism."""
