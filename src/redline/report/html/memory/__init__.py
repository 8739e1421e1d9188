"""The result of `memory` as a page."""
