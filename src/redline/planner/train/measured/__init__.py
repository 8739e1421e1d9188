"""Plans of training that start from a measured step of the same job."""
