"""What a machine can do, measured: the probes of `redline calibrate`. Only functions import torch here."""
