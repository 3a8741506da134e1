"""Ranges of a profiler that is not there."""


def RangePush(message, id_color=-1):
    pass


def RangePushC(message, color=0):
    pass


def RangePop():
    pass
