"""Reading records: sources, order, batches, reading ahead. Knows no graphs and no devices."""
