"""Small jobs with planted bugs and harmless changes, which the check of numbers is scored on."""
