"""Remarks: what to know before acting on a finding. They claim no time."""
