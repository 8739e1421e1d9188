"""Published measurements that predictions are held against, and how well they fare."""
