"""Update rules and hooks of Chainer as ops: one row each, and the plan made of them."""
