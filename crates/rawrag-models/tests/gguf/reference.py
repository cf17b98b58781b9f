"""Writes tiny.gguf, a Llama of random weights over single bytes, and what numpy computes for it.

    python -m venv env && env/bin/pip install gguf==0.19.0 numpy==2.4.6
    env/bin/python reference.py

The model says nothing sensible. It is there so that reading the file, the chat form, control tokens
and log-probabilities can be checked without anybody's weights.
"""

import json

import gguf
import numpy as np

VOCAB, WIDTH, HEADS, KV_HEADS, INNER, LAYERS, CONTEXT = 259, 32, 4, 2, 48, 2, 256
HEAD = WIDTH // HEADS
EPS, BASE = 1e-5, 10000.0
CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def byte_characters():
    """The printable stand-ins that byte-level vocabularies write bytes with."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(spare)) for b in range(256)]


def weights(rng):
    def matrix(rows, columns):
        return (rng.standard_normal((rows, columns)) * 0.35).astype(np.float32)

    tensors = {
        "token_embd.weight": matrix(VOCAB, WIDTH),
        "output_norm.weight": np.ones(WIDTH, np.float32),
        "output.weight": matrix(VOCAB, WIDTH),
    }
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        tensors |= {
            at + "attn_norm.weight": (1 + 0.1 * rng.standard_normal(WIDTH)).astype(np.float32),
            at + "ffn_norm.weight": (1 + 0.1 * rng.standard_normal(WIDTH)).astype(np.float32),
            at + "attn_q.weight": matrix(WIDTH, WIDTH),
            at + "attn_k.weight": matrix(KV_HEADS * HEAD, WIDTH),
            at + "attn_v.weight": matrix(KV_HEADS * HEAD, WIDTH),
            at + "attn_output.weight": matrix(WIDTH, WIDTH),
            at + "ffn_gate.weight": matrix(INNER, WIDTH),
            at + "ffn_up.weight": matrix(INNER, WIDTH),
            at + "ffn_down.weight": matrix(WIDTH, INNER),
        }
    return tensors


def write(tensors):
    out = gguf.GGUFWriter("tiny.gguf", "llama")
    out.add_name("tiny-random-llama")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_rope_dimension_count(HEAD)
    out.add_rope_freq_base(BASE)
    out.add_layer_norm_rms_eps(EPS)
    out.add_vocab_size(VOCAB)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("qwen2")
    tokens = byte_characters() + ["<|im_start|>", "<|im_end|>", "<|end|>"]
    out.add_token_list(tokens)
    kinds = [gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * 3
    out.add_token_types(kinds)
    # Never used: no two bytes of a text are joined.
    out.add_token_merges([byte_characters()[0] + " " + byte_characters()[1]])
    out.add_bos_token_id(258)
    out.add_eos_token_id(257)
    out.add_add_bos_token(False)
    out.add_chat_template(CHAT)
    for name, tensor in tensors.items():
        out.add_tensor(name, tensor)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def norm(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * weight


def rotate(x):
    """Turns neighbouring pairs by their position, as llama.cpp does for this family."""
    positions = np.arange(x.shape[0])[:, None]
    angles = positions / BASE ** (np.arange(0, HEAD, 2) / HEAD)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = np.empty_like(x)
    turned[..., 0::2], turned[..., 1::2] = even * cos - odd * sin, even * sin + odd * cos
    return turned


def logprobs(tensors, ids):
    """Log-probabilities of the token after `ids`."""
    w = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    x = w["token_embd.weight"][ids]
    n = len(ids)
    mask = np.triu(np.full((n, n), -np.inf), 1)
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        h = norm(x, w[at + "attn_norm.weight"])
        q = rotate((h @ w[at + "attn_q.weight"].T).reshape(n, HEADS, HEAD))
        k = rotate((h @ w[at + "attn_k.weight"].T).reshape(n, KV_HEADS, HEAD))
        v = (h @ w[at + "attn_v.weight"].T).reshape(n, KV_HEADS, HEAD)
        k, v = (np.repeat(t, HEADS // KV_HEADS, 1) for t in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(HEAD) + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", scores, v).reshape(n, WIDTH) @ w[at + "attn_output.weight"].T
        h = norm(x, w[at + "ffn_norm.weight"])
        gate = h @ w[at + "ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[at + "ffn_up.weight"].T)) @ w[at + "ffn_down.weight"].T
    logits = norm(x[-1], w["output_norm.weight"]) @ w["output.weight"].T
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def reply(tensors, ids, most):
    """Token ids and their log-probabilities, greedily, up to the end token."""
    ids, out = list(ids), []
    while len(out) < most:
        after = logprobs(tensors, ids)
        best = int(after.argmax())
        if best in (257, 258):
            break
        out.append((best, float(after[best])))
        ids.append(best)
    return out


def main():
    tensors = weights(np.random.default_rng(20260))
    write(tensors)
    said = "Mara keeps bees. <|im_end|>"
    chat = [256, *b"user\n", *said.encode(), 257, *b"\n", 256, *b"assistant\n"]
    prompt = [*b"Is it so? ", 257]
    after = logprobs(tensors, prompt)
    top = sorted(range(VOCAB), key=lambda t: (-after[t], t))[:5]
    expected = {
        "said": said,
        "chat_tokens": len(chat),
        "chat": [list(pair) for pair in reply(tensors, chat, 12)],
        "prompt": "Is it so? <|im_end|>",
        "top": [[t, float(after[t])] for t in top],
    }
    with open("expected.json", "w") as file:
        json.dump(expected, file, indent=1)


main()
