# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Training that goes on where it was when it is started again.

python3 training.py 2000                              kill it, and start it again
python3 training.py 2000 durable=/ssd staleness_max_s=600
"""

import sys

import numpy
import surefoot


def begin():
    """Everything that the next step depends on: weights, the optimizer's moments, the random generator, the count."""
    random = numpy.random.default_rng(1)
    weights = {"in": random.normal(size=(64, 128)) / 8, "out": random.normal(size=(128, 1)) / 8}
    moments = {name: numpy.zeros_like(weight) for name, weight in weights.items()}
    return {"step": 0, "weights": weights, "moments": moments, "random": random.bit_generator.state}


def train(state, random):
    """One step of gradient descent with momentum. It writes into the arrays, and makes no new ones."""
    weights, moments = state["weights"], state["moments"]
    features = random.normal(size=(32, 64))
    hidden = numpy.tanh(features @ weights["in"])
    error = hidden @ weights["out"] - numpy.sin(features.sum(1, keepdims=True))
    back = (error @ weights["out"].T) * (1 - hidden**2)
    for name, gradient in {"out": hidden.T @ error, "in": features.T @ back}.items():
        moments[name] *= 0.9
        moments[name] += gradient / 32
        weights[name] -= 0.01 * moments[name]
    state["step"] += 1
    return float((error**2).mean())


def main(steps, settings):
    state = begin()
    with surefoot.Checkpoint("training", **settings) as job:
        job.state_dict(state)
        restored = job.restart()
        if restored:
            print(f"restarted at step {state['step']}: {restored.report[0]}", flush=True)
        random = numpy.random.default_rng()
        random.bit_generator.state = state["random"]

        while state["step"] < steps and not job.told_to_end:
            loss = train(state, random)
            if state["step"] % 10 == 0 and job.need():
                state["random"] = random.bit_generator.state
                saved = job.save()
                if saved:
                    print(f"step {state['step']}: loss {loss:.4f}, checkpoint {saved.generation}", flush=True)
                for notice in job.notices():
                    print(notice, flush=True)
    if state["step"] < steps:
        sys.exit(f"told to end at step {state['step']}: started again, it goes on there")
    print(f"after {state['step']} steps the weights add up to {float(state['weights']['in'].sum()).hex()}")


if __name__ == "__main__":
    main(int(sys.argv[1]), dict(setting.split("=", 1) for setting in sys.argv[2:]))
