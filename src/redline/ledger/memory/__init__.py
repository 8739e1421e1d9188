"""The ledger of bytes: what a device's memory holds at a moment, account by account, and why an allocation failed."""
