"""Networks: a training loop over whole queries in batches, each candidate scored once per step, on CPU or GPU."""
