"""So many of something, in words: 1 rank, 2 ranks."""

from redline.report.language import ngettext


def ranks(count: int) -> str:
    return ngettext("{count:,} rank", "{count:,} ranks", count).format(count=count)


def kernels(count: int) -> str:
    return ngettext("{count:,} kernel", "{count:,} kernels", count).format(count=count)


def operators(count: int) -> str:
    return ngettext("{count:,} operator", "{count:,} operators", count).format(count=count)


def calls(count: int) -> str:
    return ngettext("{count:,} call", "{count:,} calls", count).format(count=count)


def collectives(count: int) -> str:
    return ngettext("{count:,} collective", "{count:,} collectives", count).format(count=count)
