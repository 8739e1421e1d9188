"""All ranks of a job: from digests to one diagnosis. Nothing here opens a trace but digests.py."""
