"""EMem-G: EMem with personalized PageRank over its graph."""

from emem_checkout import serve_variant

serve_variant("emem-g", graph=True)
