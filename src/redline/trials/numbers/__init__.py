"""Whether a change leaves the numbers of a job right: runs held against a reference and a floor, tensor by tensor."""
