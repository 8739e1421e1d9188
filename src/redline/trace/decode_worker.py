"""What a process that decodes batches for another does: text in, packed columns out, until nobody asks any more.

Text and results lie in memory that both share; requests and replies are a few bytes on pipes.
"""

import mmap
import os
import pickle
import signal
import struct
import sys

from redline.trace.batch_columns import Packed, Packer
from redline.trace.fast_decode import decoded_if_sound

REQUEST = struct.Struct("<IQQ")  # place, length of the text, epoch: a new one forgets all numbers
REPLY = struct.Struct("<q")  # length of the result; -1 where the batch needs more than decoding
READY = REPLY.pack(0)
PLACES = 2  # one is decoded while the next waits
TEXT_BYTES = 4 << 20  # longer batches are not given away
RESULT_BYTES = 4 << 20
PLACE_BYTES = TEXT_BYTES + RESULT_BYTES


def main(memory: int) -> None:
    """Serve requests on stdin until it ends; `memory` is the descriptor of the shared memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asked
    replies = os.dup(sys.stdout.fileno())
    requests = os.dup(sys.stdin.fileno())
    with mmap.mmap(memory, PLACES * PLACE_BYTES) as shared:
        packer, known_epoch = Packer(), 0
        os.write(replies, READY)
        while len(request := os.read(requests, REQUEST.size)) == REQUEST.size:
            place, length, epoch = REQUEST.unpack(request)
            if epoch != known_epoch:
                packer, known_epoch = Packer(), epoch
            begin = place * PLACE_BYTES
            result = _result(packer, shared[begin : begin + length])
            if result is not None:
                begin += TEXT_BYTES
                shared[begin : begin + len(result)] = result
            os.write(replies, REPLY.pack(-1 if result is None else len(result)))


def _result(packer: Packer, text: bytes) -> bytes | None:
    packed = packed_if_sound(packer, text)
    if packed is None:
        return None
    result = pickle.dumps(packed, protocol=pickle.HIGHEST_PROTOCOL)
    return result if len(result) <= RESULT_BYTES else None


def packed_if_sound(packer: Packer, text: bytes) -> Packed | None:
    decoded = decoded_if_sound(text)
    return None if decoded is None else packer.pack(decoded)
