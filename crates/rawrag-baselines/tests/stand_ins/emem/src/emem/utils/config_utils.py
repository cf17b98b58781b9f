"""The settings that the wrapper gives; another one is refused, as by EMem's own dataclass."""

from dataclasses import dataclass


@dataclass
class BaseConfig:
    llm_name: str = None
    llm_base_url: str = None
    embedding_model_name: str = None
    embedding_base_url: str = None
    max_new_tokens: int = 2048
    seed: int = None
    temperature: float = 0
    openie_mode: str = "edu_based_ee_online"
    embedding_batch_size: int = 16
    embedding_return_as_normalized: bool = True
    synonymy_edge_sim_threshold: float = 0.8
    linking_top_k: int = 5
    date_format_type: str = "locomo"
    skip_edu_context_gen: bool = True
    skip_retrieval_ppr: bool = False
    save_dir: str = None
