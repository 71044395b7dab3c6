// Seed: replaced by the first file of this layer.
