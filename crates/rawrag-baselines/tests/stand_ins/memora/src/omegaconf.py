"""What the stand-in needs of the package of this name."""

from types import SimpleNamespace


class OmegaConf:
    @staticmethod
    def create(value):
        if not isinstance(value, dict):
            return value
        return SimpleNamespace(**{name: OmegaConf.create(inner) for name, inner in value.items()})
