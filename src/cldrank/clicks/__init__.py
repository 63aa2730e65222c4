"""Click logs: their aggregation to cells, their audit, and their simulation."""
