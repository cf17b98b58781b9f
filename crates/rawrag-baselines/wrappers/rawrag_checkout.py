"""What the wrappers of systems in a checkout share: the checkout on Python's path, and its entry points."""

import importlib
import os
import sys


def entry_points(checkout, below, names):
    """The things that `names` (module:attribute) name, with `below` in the checkout on Python's path."""
    if not checkout or not os.path.isdir(checkout):
        raise ValueError(f"there is no folder {checkout!r}: clone the repository and name it as the setting `checkout`")
    sys.path.insert(0, os.path.join(os.path.abspath(checkout), below))
    found = []
    for name in names:
        module, _, attribute = name.partition(":")
        try:
            found.append(getattr(importlib.import_module(module), attribute))
        except ModuleNotFoundError as error:
            raise ValueError(
                f"{checkout} cannot be used: {error}. Either it is another repository or release, or the Python that"
                " runs this lacks what it needs: name one that has it as the setting `python`"
            ) from None
        except AttributeError:
            raise ValueError(f"{checkout} has other entry points: {module} has no {attribute}") from None
    return found
