"""Sizes of tensors and products, from the profiler's text."""

import pytest

from redline.roofline.sizes import BatchedMatmul, elements_of, product_of, shapes_of


@pytest.mark.parametrize(
    ("name", "shapes", "product"),
    [
        ("aten::mm", "[[2, 3], [3, 5]]", BatchedMatmul(1, 2, 3, 5)),
        ("aten::addmm", "[[5], [2, 3], [3, 5], [], []]", BatchedMatmul(1, 2, 3, 5)),
        ("aten::bmm", "[[7, 2, 3], [7, 3, 5]]", BatchedMatmul(7, 2, 3, 5)),
        ("aten::baddbmm", "[[1], [7, 2, 3], [7, 3, 5]]", BatchedMatmul(7, 2, 3, 5)),
        ("aten::linear", "[[4, 2, 3], [5, 3], [5]]", BatchedMatmul(1, 8, 3, 5)),
        ("aten::linear", "[[3], [5, 3]]", BatchedMatmul(1, 1, 3, 5)),
    ],
)
def test_products_by_what_each_size_means(name: str, shapes: str, product: BatchedMatmul) -> None:
    assert product_of(name, shapes) == product


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::add", "[[2, 3], [2, 3]]"),
        ("aten::mm", ""),
        ("aten::mm", "[[2, 3]]"),
        ("aten::mm", "[[2, 3], [4, 5]]"),
        ("aten::mm", "[[2, 3, 1], [3, 5]]"),
        ("aten::linear", "[[], []]"),
        ("aten::mm", "{"),
    ],
)
def test_what_is_no_product_or_not_recorded(name: str, shapes: str) -> None:
    assert product_of(name, shapes) is None


def test_shapes_of_lists_and_damaged_text_are_empty() -> None:
    assert shapes_of("[[2, 3], [], [[4], [5]]]") == ((2, 3), (), ())
    assert shapes_of('[["a"]]') == ()
    assert shapes_of("\udcff") == ()


def test_elements_of_tensors_but_not_of_scalars() -> None:
    assert elements_of("[[2, 3], [], [1], [6], [0, 4]]") == {6}
