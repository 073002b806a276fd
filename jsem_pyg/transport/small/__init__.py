"""Many small pairs of graphs at once: dense, padded, batched."""
