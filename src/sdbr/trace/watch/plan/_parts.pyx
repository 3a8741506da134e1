"""What a plan is made of: places, and what is tested of them."""


cdef class Node:
    """A place, and what lay there last."""

    def __init__(self, value, int how, keep=None):
        self.value, self.how, self.keep = value, how, keep

    def becomes(self, int how, keep):
        """It is compared otherwise."""
        self.how, self.keep = how, keep


cdef class Test:
    """What has to hold. Its pairs, keys and nodes, are filled in until the plan is made."""

    def __init__(self, int op, Node node=None, Py_ssize_t number=0, thing=None, Node other=None):
        self.op, self.node, self.number, self.thing, self.other = op, node, number, thing, other
        self.pairs, self.places = [], {}

    def add(self, key, node):
        """Take up a pair."""
        self.pairs.append((key, node))
        self.places[type(key), key] = node
