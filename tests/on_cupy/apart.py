"""Cases of Chainer's functions that are left out on CuPy, each with its reason."""

CONSTANT = "an array of the host inside of the case"
SAMPLER = "a sampler of the host inside of the case"
#: Cases that cannot run on CuPy, or where Chainer's code for GPUs gives something else.
APART = {
    "connectionist_temporal_classification longer": "its kernel indexes with negative labels",
    "copy": "to the CPU: the gradient would have to be there",
    "embed_id wide": "its kernel takes the width as an int8, as the labels are",
    "negative_sampling": SAMPLER,
    "negative_sampling no": SAMPLER,
    "negative_sampling return_samples": SAMPLER,
    "operator x + array": CONSTANT,
    "operator x * 0-d array": CONSTANT,
    "polygamma": CONSTANT,
    "softmax_cross_entropy class_weight": CONSTANT,
    "softmax_cross_entropy no, 3-D, class_weight": CONSTANT,
    "softmax_cross_entropy soft targets with -1": "its code for GPUs ignores no soft target",
    "sparse_matmul": CONSTANT,
    "sparse_matmul transposed": CONSTANT,
}
