"""Skip, for a case that Stride cannot be held against, with the reason."""


class Skip(Exception):
    pass


def needs(condition, why):
    if not condition:
        raise Skip(why)
