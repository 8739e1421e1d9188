"""Which ranks talk to each other: all of them, and the subgroups that jobs use."""

from __future__ import annotations

from collections.abc import Sequence

Groups = tuple[tuple[int, ...], ...]


def levels(nodes: Sequence[int]) -> dict[str, Groups]:
    """The groups of each level, by the node of each rank. The groups of a level share no rank and work at once.

    Of several nodes: node (the ranks of one) and across (the first ranks of all nodes, the second ones, and so on). Of
    one node with four ranks or more: pair, and half where that is more than a pair. A level that is the world again is
    left out, and so is one whose groups would not be of one size.
    """
    world = len(nodes)
    groups_of_level: dict[str, Groups] = {"world": (tuple(range(world)),)}
    members = [[rank for rank in range(world) if nodes[rank] == node] for node in sorted(set(nodes))]
    if len(members) > 1:
        groups_of_level |= {"node": tuple(map(tuple, members)), "across": tuple(zip(*members, strict=False))}
    elif world >= 4:
        groups_of_level |= {"half": _runs(world, world // 2), "pair": _runs(world, 2)}
    return {
        name: groups for name, groups in groups_of_level.items() if _is_of_use(name, groups, groups_of_level, world)
    }


def _runs(world: int, length: int) -> Groups:
    """Neighbours; ranks that are left over are in none."""
    return tuple(tuple(range(first, first + length)) for first in range(0, world - length + 1, length))


def _is_of_use(name: str, groups: Groups, groups_of_level: dict[str, Groups], world: int) -> bool:
    sizes = {len(group) for group in groups}
    if name == "world":
        return True
    is_a_pair = name == "half" and groups == groups_of_level["pair"]
    return len(sizes) == 1 and 1 < min(sizes) < world and not is_a_pair


def level_of(first: int, second: int, nodes: Sequence[int]) -> str:
    """Whether two ranks are on one node."""
    return "node" if nodes[first] == nodes[second] else "across"


def sizes(most_bytes: int, *, step: int) -> list[int]:
    """From one element up to the most, each so many times the one before."""
    sizes_bytes = [4]
    while sizes_bytes[-1] * step <= most_bytes:
        sizes_bytes.append(sizes_bytes[-1] * step)
    return sizes_bytes
