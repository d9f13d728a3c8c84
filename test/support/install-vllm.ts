import { vllm } from './tools/vllm.ts';

// Prints where a vLLM for the live run is, installing it first if need be.
const installed = await vllm.findInstalled();
if (installed === undefined) console.error(`Installing ${vllm.name}: 3 GB to download, 6 GB on disk...`);
console.log(installed ?? (await vllm.install()));
