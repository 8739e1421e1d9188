"""Commands of translated pages follow those of the English ones, wherever they stand in the text."""

from scripts.copy_commands import renewed, unknown_blocks


def block(text: str) -> str:
    return f"```console\n$ {text}\n```\n"


ENGLISH = (
    f"One.\n\n{block('redline run')}\nTwo.\n\n{block('redline diagnose --new')}\nThree.\n\n{block('redline merge')}"
)
CHINESE = f"一。\n\n{block('redline run')}\n二。\n\n{block('redline diagnose --old')}\n三。\n"


def test_a_changed_command_is_copied_to_its_place() -> None:
    assert unknown_blocks(CHINESE, ENGLISH) == [block("redline diagnose --old")]
    assert renewed(CHINESE, ENGLISH) == CHINESE.replace("--old", "--new")


def test_a_command_that_is_gone_is_removed_and_a_new_one_left_to_a_translator() -> None:
    assert renewed(CHINESE, block("redline run")) == f"一。\n\n{block('redline run')}\n二。\n\n\n三。\n"
    assert unknown_blocks(block("redline run"), ENGLISH) == []
