"""Labelled cases: a server and a load with one flaw, and a twin without it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
OPEN = HERE / "cases.toml"
CODES = HERE / "causes.toml"


@dataclass(frozen=True, kw_only=True)
class Side:
    """Words for the server and for its client, and the server's environment."""

    server: tuple[str, ...] = ()
    client: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def with_more(self, more: "Side") -> "Side":
        return Side(
            server=(*self.server, *more.server),
            client=(*self.client, *more.client),
            environment={**self.environment, **more.environment},
        )


@dataclass(frozen=True, kw_only=True)
class ServingCase:
    """`codes` are the causes that name what is wrong."""

    name: str
    cause: str
    codes: tuple[str, ...]
    model: str
    flawed: Side
    healthy: Side
    needs_bf16: bool = False  # the flaw is none on a CPU without instructions for bfloat16

    @property
    def sides(self) -> dict[str, Side]:
        return {"flawed": self.flawed, "healthy": self.healthy}


def cases_in(path: Path) -> list[ServingCase]:
    codes = tomllib.loads(CODES.read_text(encoding="utf-8"))
    found = []
    for told in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
        both, flawed, healthy = (_side(told.get(name, {})) for name in ("both", "flawed", "healthy"))
        found.append(
            ServingCase(
                name=told["name"],
                cause=told["cause"],
                codes=tuple(codes[told["cause"]]),
                model=told["model"],
                flawed=both.with_more(flawed),
                healthy=both.with_more(healthy),
                needs_bf16=bool(told.get("needs_bf16", False)),
            )
        )
    return found


def _side(told: Mapping[str, object]) -> Side:
    server, client, environment = told.get("server", []), told.get("client", []), told.get("environment", {})
    if not isinstance(server, list) or not isinstance(client, list) or not isinstance(environment, dict):
        raise TypeError(f"a side has lists of words and a table: {told}")
    return Side(server=tuple(server), client=tuple(client), environment=environment)
