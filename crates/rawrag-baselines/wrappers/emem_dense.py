"""EMem: units found by similarity and a filtering model, without PageRank."""

from emem_checkout import serve_variant

serve_variant("emem", graph=False)
