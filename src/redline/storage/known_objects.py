"""Facts of stores that this process knows: states of objects as listed, and what gives access to them.

Everything is by the public text of a URL. Access is never part of a path, so it cannot get into a report.
"""

from redline.errors import UsageError
from redline.values import dataclass


@dataclass(frozen=True, slots=True)
class ObjectState:
    """An object or a folder when it was last asked for."""

    is_folder: bool
    size_bytes: int = -1  # not known
    changed_ns: int = 0  # not known
    tag: str = ""  # of the content, such as an ETag


USER_APART = ("s3", "s3a")
"""Where a user in a URL is an access key: its library would take it for a part of the bucket's name."""

_states: dict[str, ObjectState] = {}
_children: dict[str, dict[str, None]] = {}  # what is directly in a folder that was listed, in order
_listed: set[str] = set()  # folders that were listed with all that is below
_users: dict[str, str] = {}  # and passwords, by scheme and authority
_queries: dict[str, str] = {}  # by object


def state_known(url: str) -> ObjectState | None:
    return _states.get(url)


def note(url: str, state: ObjectState) -> None:
    _states[url] = state


def is_listed(url: str) -> bool:
    """All that is below it is known: it or a folder above was listed."""
    while url.count("/") > 2:
        if url in _listed:
            return True
        url = url.rpartition("/")[0]
    return url in _listed


def children_of(url: str) -> list[str]:
    """The entries of a folder that is listed."""
    return list(_children.get(url, ()))


def note_listing(url: str, objects: dict[str, ObjectState]) -> None:
    """Everything below a folder; folders are what the names of objects make of them."""
    _listed.add(url)
    _states.update(objects)
    for name in objects:
        inner = name
        while len(inner) > len(url):
            folder = inner.rpartition("/")[0]
            siblings = _children.setdefault(folder, {})
            if inner in siblings:
                break
            siblings[inner] = None
            _states.setdefault(folder, ObjectState(is_folder=True))
            inner = folder


def forget(url: str) -> None:
    """All states at and below it, and every listing that it is part of."""
    below = f"{url}/"
    for known in (_states, _children):
        for name in [name for name in known if name == url or name.startswith(below)]:
            del known[name]
    _listed.difference_update([name for name in _listed if name.startswith(below) or below.startswith(f"{name}/")])


def authority_of(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])


def note_access(url: str, user: str, query: str) -> None:
    """UsageError where another query was given for the same object: only one of them could be meant."""
    if user:
        _users[authority_of(url)] = user
    if query and _queries.setdefault(url, query) != query:
        raise UsageError(f"{url} was given with two different queries; name each object once")


def access_of(url: str) -> tuple[str, str]:
    """User with password, and query."""
    return _users.get(authority_of(url), ""), _queries.get(url, "")


def with_access(url: str) -> str:
    """The URL as the library of the store has to be asked, not to be shown."""
    user, query = access_of(url)
    scheme, _, rest = url.partition("://")
    user = "" if not user or scheme in USER_APART else f"{user}@"
    return f"{scheme}://{user}{rest}{'?' if query else ''}{query}"


def secrets() -> list[str]:
    """Whatever of access could turn up in a message."""
    parts = [part for user in _users.values() for part in (user, user.partition(":")[2])]
    values = [pair.partition("=")[2] for query in _queries.values() for pair in query.split("&")]
    return [text for text in (*parts, *_queries.values(), *values) if len(text) > 3]
