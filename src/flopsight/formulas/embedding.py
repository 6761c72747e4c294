"""Tables of vectors: a lookup reads rows, not the table; bags add rows up."""

from ..results.costs import Cost
from ..results.records import OpRecord
from .elementwise import elements
from .registry import aten, formula, free, named

MEAN, MAX = 1, 2


@free("aten.embedding", *named("quantized", "embedding_byte embedding_4bit"))
def embedding(call: OpRecord) -> Cost:
    """The rows that were asked for are read and written."""
    return Cost(bytes=call.tensor("indices").nbytes + 2 * call.output.nbytes)


@formula(*aten("embedding_dense_backward embedding_backward"))
def embedding_backward(call: OpRecord) -> Cost:
    """Every gradient row is added to the row it came from."""
    grad = call.tensor("grad_output" if "grad_output" in call.args else "grad")
    return Cost(flops=elements(grad))


@formula(*aten("_embedding_bag _embedding_bag_forward_only embedding_bag"))
def embedding_bag(call: OpRecord) -> Cost:
    """Each looked-up element joins its bag, weighed if weights are given; a mean divides each output."""
    picked = call.tensor("indices").numel * call.shape("weight")[-1]
    weighed = picked if call.args.get("per_sample_weights") is not None else 0
    divided = call.output.numel if call.args["mode"] == MEAN else 0
    rows = picked * call.tensor("weight").itemsize
    moved = rows + call.tensor("indices").nbytes + sum(meta.nbytes for meta in call.outputs)
    return Cost(flops=picked + weighed + divided, bytes=moved)


@formula(*aten("_embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_sparse_backward"))
def embedding_bag_backward(call: OpRecord) -> Cost:
    """A bag's gradient goes back to each of its rows: divided for a mean, weighed, and added; a maximum has one row."""
    grad = call.tensor("grad")
    picked = grad.numel if call.args["mode"] == MAX else call.tensor("indices").numel * grad.shape[-1]
    weighed = picked if call.args.get("per_sample_weights") is not None else 0
    divided = picked if call.args["mode"] == MEAN else 0
    return Cost(flops=picked + weighed + divided)


@formula("aten._embedding_bag_per_sample_weights_backward")
def sample_weights_backward(call: OpRecord) -> Cost:
    """Each weight's gradient is the inner product of its row with the bag's gradient: multiplied, then summed."""
    return Cost(flops=2 * call.tensor("indices").numel * call.shape("weight")[-1])


@formula("aten.embedding_renorm")
def embedding_renorm(call: OpRecord) -> Cost:
    """The norms of the looked-up rows, then their scaling."""
    picked = call.tensor("indices").numel * call.shape("self")[-1]
    size = call.tensor("self").itemsize
    return Cost(flops=2 * picked, bytes=2 * picked * size + call.tensor("indices").nbytes)
