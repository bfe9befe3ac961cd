"""Sample text from a trained GPT over bytes, a byte at a time.

    python examples/sample.py runs/gpt-char-tiny-… --prompt "In the beginning" --length 200

The model sees a window of fixed length: the bytes so far stand at its start, the rest is filled
with zeros, which a causal model does not look at when it predicts the byte after the last one.
"""

from __future__ import annotations

import argparse

import numpy as np

import sexpgpu as sx


def sample(run: sx.Run, prompt: bytes, length: int, temperature: float, seed: int) -> bytes:
    """`length` bytes that follow `prompt`; at temperature 0 the likeliest byte each time."""
    random = np.random.default_rng(seed)
    (field,) = run.document.loader(run.document.run.train).stages[0].fields
    context = field.shape[0] - 1  # a window is the context and the byte after it
    text = bytearray(prompt or b"\n")
    for _ in range(length):
        seen = text[-context:]
        window = np.zeros((1, context + 1), np.uint8)
        window[0, : len(seen)] = list(seen)
        logits = run.predict(tokens=window)[0, len(seen) - 1].astype(np.float64)
        if temperature == 0:
            text.append(int(logits.argmax()))
            continue
        weights = np.exp((logits - logits.max()) / temperature)
        text.append(int(random.choice(256, p=weights / weights.sum())))
    return bytes(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", help="a run directory, or RUN@best, RUN@STEP")
    parser.add_argument("--prompt", default="In the beginning")
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    run = sx.open_run(given.run, device=given.device)
    text = sample(run, given.prompt.encode(), given.length, given.temperature, given.seed)
    print(text.decode("utf-8", errors="replace"))


if __name__ == "__main__":
    main()
