"""`redline hardware`: what accelerators can do at best, by the catalogue or by a profile."""

from redline.hardware import catalogue
from redline.hardware.machine import Machine
from redline.hardware.profile import is_profile_path, load_profile
from redline.storage import path_of


def find_hardware(name: str | None = None) -> tuple[Machine, ...]:
    """All records; or the machine of a profile; or the records that this name, or part of one, may mean."""
    if name is None:
        return catalogue.machines()
    if is_profile_path(name):
        return (load_profile(path_of(name)),)
    return catalogue.search(name) or (catalogue.find(name),)
