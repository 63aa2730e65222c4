"""Networks: one training loop, whole queries in batches, each candidate scored once per step, on CPU or GPU."""
