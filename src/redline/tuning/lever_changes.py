"""What each lever changes in the files of the user, at the places that were seen."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from redline.capture.levers import Lever
from redline.capture.places import DDP, LOADER, MODEL, OPTIMIZER, ROOT_CALL, SCRIPT, ZERO_GRAD, Place
from redline.errors import InputError
from redline.tuning import source_text as edits
from redline.tuning.seen_files import ArgumentChange, FileChange, SeenFiles, argument_of
from redline.tuning.source_text import Edit, SourceText

Changes = list[FileChange]
_OF_WORKERS = ("persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context")  # of no use without
_TYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}
_WIDEST = 100  # columns of a line that lists blocks


def changes_of(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    """Raises InputError, which says why there is no place for it. `levers` are all that are kept."""
    if lever.kind.environment:
        raise InputError("it must be there when the process starts: put it before the command")
    if lever.kind.unwritten:
        raise InputError(lever.kind.unwritten)
    if lever.kind.argument:
        changes = _ddp_argument(lever, files)
    elif lever.kind.line:
        changes = _line(lever, files)
    else:
        changes = _PLANS[lever.kind.name](lever, levers, files)
    if not changes:
        raise InputError("at the places that were seen, it has nothing to change")
    return changes


def _all_of(files: SeenFiles, kind: str, what: str) -> list[Place]:
    places = files.places(kind)
    if not places:
        raise InputError(f"{what} was seen")
    return places


def _wanted(files: SeenFiles, kind: str, what: str, is_wanted: Callable[[Place], bool]) -> list[Place]:
    """Calls that a lever changes, each once; those that it leaves alone must be other calls."""
    calls: dict[tuple[str, int, int], list[Place]] = {}
    for place in _all_of(files, kind, what):
        calls.setdefault((place.file, place.end_line, place.end_column), []).append(place)
    chosen = []
    for places in calls.values():
        wanted = [place for place in places if is_wanted(place)]
        if wanted and len(wanted) < len(places):
            raise InputError(f"line {places[0].line} of {places[0].file} makes some that it leaves alone")
        if wanted:
            given = sorted({name for place in places for name in place.details.get("given", ())})
            chosen.append(replace(wanted[0], details={**wanted[0].details, "given": given}))
    return chosen


def _argument(files: SeenFiles, place: Place, name: str, value: str | None) -> FileChange:
    source, call = files.call(place)
    order, given = place.details.get("order", ()), place.details.get("given", ())
    change = ArgumentChange(call=call, name=name, value=value, order=tuple(order), given=frozenset(given))
    argument_of(change)
    return FileChange(source.path, change)


# Arguments of constructors


def _optimizer_flag(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    flag = lever.kind.name

    def is_wanted(place: Place) -> bool:
        is_on = place.details["is_on"]
        return flag in place.details["flags"] and flag not in is_on and "fused" not in is_on

    changes = []
    for place in _wanted(files, OPTIMIZER, "no optimizer of torch.optim", is_wanted):
        changes.append(_argument(files, place, flag, "True"))
        if flag == "fused" and "foreach" in place.details["given"]:
            changes.append(_argument(files, place, "foreach", None))
    return changes


def _workers(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    """Workers that stay draw no seed for a new epoch: an order that is shuffled is another one from the second on."""
    number = int(lever.value)

    def is_wanted(place: Place) -> bool:
        return not place.details["is_iterable"] and place.details["workers"] != number

    changes = []
    for place in _wanted(files, LOADER, "no DataLoader", is_wanted):
        given = place.details["given"]
        changes.append(_argument(files, place, "num_workers", lever.value))
        if not number:
            changes += [_argument(files, place, name, None) for name in _OF_WORKERS if name in given]
        elif "persistent_workers" not in given:
            changes.append(_argument(files, place, "persistent_workers", "True"))
    return changes


def _prefetch(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    """Of loaders that have workers, with the lever `workers` too."""
    asked = [int(other.value) for other in levers if other.kind.name == "workers"]

    def is_wanted(place: Place) -> bool:
        is_asked = asked and not place.details["is_iterable"]
        return bool(asked[0] if is_asked else place.details["workers"])

    places = _wanted(files, LOADER, "no DataLoader", is_wanted)
    return [_argument(files, place, "prefetch_factor", lever.value) for place in places]


def _pinning(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    places = _wanted(files, LOADER, "no DataLoader", lambda place: True)
    return [_argument(files, place, "pin_memory", "True") for place in places]


def _batch_times(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    changes = []
    for place in _wanted(files, LOADER, "no DataLoader", lambda place: True):
        if place.details["has_batch_sampler"]:
            raise InputError(f"line {place.line} of {place.file}: a batch sampler makes the batches")
        change = _argument(files, place, "batch_size", lever.value)
        if isinstance(change.change, ArgumentChange):
            argument = argument_of(change.change)
            node = argument.value if isinstance(argument, ast.keyword) else argument
            value = lever.value if node is None else _times(files.source(place), node, int(lever.value))
            change = _argument(files, place, "batch_size", value)
        changes.append(change)
    return changes


def _times(source: SourceText, node: ast.expr, factor: int) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return str(node.value * factor)
    text = source.text(node)
    is_atom = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    return f"{text} * {factor}" if is_atom else f"({text}) * {factor}"


def _ddp_argument(lever: Lever, files: SeenFiles) -> Changes:
    places = _wanted(files, DDP, "no DistributedDataParallel", lambda place: True)
    return [_argument(files, place, lever.kind.argument, lever.value or "True") for place in places]


def _zero_grad(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    changes = []
    name = "set_to_none"
    for place in _filling(files):
        source, call = files.call(place)
        change = ArgumentChange(call=call, name=name, value=None, order=(name,), given=frozenset({name}))
        argument_of(change)
        changes.append(FileChange(source.path, change))
    return changes


def _filling(files: SeenFiles) -> list[Place]:
    places = [place for place in files.places(ZERO_GRAD) if not place.details["is_to_none"]]
    if not places:
        raise InputError("no zero_grad that fills gradients with zeros was seen")
    return places


# Lines of the main script


def _line(lever: Lever, files: SeenFiles) -> Changes:
    """Behind the imports of the main script, if the user's files do not set the same thing."""
    for source in files.parsed():
        _refuse_use(source, lever.kind.set_by)
    script = files.source(_all_of(files, SCRIPT, "no script")[0])
    apart = edits.after_imports(script, [""], edits.APART)
    text = edits.after_imports(script, [lever.kind.line.format(lever.value)], edits.SET)
    return _in(script, [*edits.imported(script, "torch"), apart, text])


def _refuse_use(source: SourceText, names: Sequence[str]) -> None:
    for node in ast.walk(source.tree):
        name = getattr(node, "attr", None) or getattr(node, "id", None)
        if name in names:
            raise InputError(f"line {getattr(node, 'lineno', 0)} of {source.path} sets it: change that line")


def _gc_freeze(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    changes: Changes = []
    for place in _all_of(files, ROOT_CALL, "no call of the model"):
        files.call(place)
        source, loop = _loop_around(place, files)
        lines = edits.lines_before(source, loop, ["gc.collect()", "gc.freeze()"], edits.SET)
        changes += _in(source, [*edits.imported(source, "gc"), lines])
    return changes


def _loop_around(place: Place, files: SeenFiles) -> tuple[SourceText, ast.stmt]:
    """The outermost loop of the innermost function that has one around it, in which the model is not made."""
    made = [files.call(model) for model in files.places(MODEL) if not model.why_not]
    for told in place.details["callers"]:
        source, call = files.call(Place(**told))
        inside = {outer for known, model in made if known is source for outer in source.ancestors(model)}
        loops = [loop for loop in edits.loops_around(source, call) if loop not in inside]
        if loops:
            return source, loops[-1]
    raise InputError("no loop around the call of the model is in your files")


# The model


def _model(files: SeenFiles) -> list[Place]:
    places = _all_of(files, MODEL, "no statement that makes the model")
    if any(place.details.get("is_sharded") for place in places):
        raise InputError("the model is sharded: put it where the model is sharded")
    return places


def _compile(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    def lines(source: SourceText, place: Place, model: str, statement: ast.stmt) -> list[str]:
        if lever.value == "root" or not place.details["blocks"]:
            return [_compiled(model, place.details["is_of_torch"])]
        block = edits.unused_name(source, statement, "block", "model_block", "block_to_compile")
        return [*_each_block(place, model, block), f"\t{_compiled(block, place.details['blocks_are_of_torch'])}"]

    changes = _after_model(files, lines, edits.COMPILED)
    for place in _model(files):
        if place.details["is_of_torch"] or place.details["blocks_are_of_torch"]:
            source = files.source(place)
            changes += _in(source, edits.imported(source, "torch"))
    return changes


def _compiled(name: str, is_of_torch: bool) -> str:
    """`compile()` of a module of torch itself has no effect: the compiler passes over its code."""
    return f"{name}.forward = torch.compile({name}.forward)" if is_of_torch else f"{name}.compile()"


def _checkpoint(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    def lines(source: SourceText, place: Place, model: str, statement: ast.stmt) -> list[str]:
        if not place.details["blocks"]:
            raise InputError(f"{place.callee} repeats no blocks")
        block = edits.unused_name(source, statement, "block", "model_block", "block_to_checkpoint")
        function = "functools.partial(torch.utils.checkpoint.checkpoint, {0}.forward, use_reentrant=False)"
        return [*_each_block(place, model, block), f"\t{block}.forward = {function.format(block)}"]

    changes = _after_model(files, lines, edits.CHECKPOINTED)
    for source in dict.fromkeys(files.source(place) for place in _model(files)):
        needed = edits.after_imports(source, ["import torch.utils.checkpoint"], edits.IMPORTED)
        changes += _in(source, [*edits.imported(source, "functools"), needed])
    return changes


def _each_block(place: Place, model: str, block: str) -> list[str]:
    """The head of a loop over all blocks that are repeated."""
    lists = place.details["blocks"]
    if len(lists) == 1 and not lists[0]["items"]:
        return [f"for {block} in {model}{lists[0]['list']}:"]
    parts = [f"{model}{item}" for known in lists for item in known["items"] or ()]
    parts = [f"*{model}{known['list']}" for known in lists if not known["items"]] + parts
    line = f"for {block} in ({', '.join(parts)}):"
    return [line] if len(line) <= _WIDEST else [f"for {block} in (", *(f"\t{part}," for part in parts), "):"]


def _after_model(
    files: SeenFiles, lines: Callable[[SourceText, Place, str, ast.stmt], list[str]], rank: int
) -> Changes:
    """Behind the statement that makes it; one that returns it gives it a name first."""
    changes: Changes = []
    for place in _model(files):
        source, call = files.call(place)
        statement = source.statement_of(call)
        if isinstance(statement, ast.Return):
            name = edits.unused_name(source, statement, "model", "made_model")
            start = source.start(statement)
            named = Edit(start, start + len("return"), 0, f"{name} =".encode())
            last = edits.lines_after(source, statement, [f"return {name}"], edits.RETURNED)
            changes += _in(source, [named, last])
        else:
            name = place.details["target"]
        changes += _in(source, [edits.lines_after(source, statement, lines(source, place, name, statement), rank)])
    return changes


def _autocast(lever: Lever, levers: Sequence[Lever], files: SeenFiles) -> Changes:
    changes: Changes = []
    for place in _all_of(files, ROOT_CALL, "no call of the model"):
        source, call = files.call(place)
        if place.details["is_cast"]:
            raise InputError("the script uses autocast itself")
        if place.details["output"] != "torch.float32":
            raise InputError(f"what the model returns ({place.details['output']}) is not one tensor of float32")
        statement = source.statement_of(call)
        head = f'with torch.autocast("{place.details["device"]}", dtype={_TYPES[lever.value]}):'
        made = [*edits.block_around(source, statement, head), *edits.imported(source, "torch")]
        changes += _in(source, [*made, *_in_float32(source, statement, call)])
    return changes


def _in_float32(source: SourceText, statement: ast.stmt, call: ast.Call) -> Iterator[Edit]:
    """What the model returns is in float32 again, as without autocast."""
    if getattr(statement, "value", None) is not call:
        raise InputError(f"line {statement.lineno} of {source.path} does more than to call the model")
    if isinstance(statement, ast.Return):
        yield Edit(source.end(call), source.end(call), 0, b".float()")
        return
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(target, ast.Name):
        raise InputError(f"line {statement.lineno} of {source.path} does not give what the model returns one name")
    yield edits.lines_after(source, statement, [f"{target.id} = {target.id}.float()"], edits.SET)


def _in(source: SourceText, made: Sequence[Edit]) -> Changes:
    return [FileChange(source.path, edit) for edit in made]


_PLANS: dict[str, Callable[[Lever, Sequence[Lever], SeenFiles], Changes]] = {
    "fused": _optimizer_flag,
    "foreach": _optimizer_flag,
    "workers": _workers,
    "prefetch": _prefetch,
    "pin-memory": _pinning,
    "batch-times": _batch_times,
    "zero-grad-none": _zero_grad,
    "gc-freeze": _gc_freeze,
    "compile": _compile,
    "checkpoint": _checkpoint,
    "autocast": _autocast,
}
