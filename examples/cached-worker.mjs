// A model that keeps the blocks of its prompts and says so: routers send a prompt to the worker that has most of it.
//   MODEL_FOLDER=~/models/Qwen3-0.6B node examples/cached-worker.mjs --discovery-backend file
//   npx stator frontend --discovery-backend file --router-mode kv
// @ts-check
import { defineWorker } from 'stator/worker';

const BLOCK_TOKENS = 16;
const BLOCKS_MAX = 4096;

/** Names of the blocks that are held, the one that was used longest ago first. */
const held = /** @type {Set<bigint>} */ (new Set());

const worker = defineWorker({
  model: 'cached',
  input: 'tokens',
  kinds: ['chat', 'completions'],
  modelPath: process.env.MODEL_FOLDER ?? 'dist/builtin-model',
  runtime: { kvBlockSizeTokens: BLOCK_TOKENS, totalKvBlocks: BLOCKS_MAX, publishesKvEvents: true },
  async *generate({ input, stop, routing }) {
    if (input.kind !== 'tokens') return;
    const { tokenIds } = input;
    const { lora_name: loraName, cache_salt: cacheSalt } = routing;
    const names = worker.kvCache.stored({ tokenIds, loraName, cacheSalt });
    const cached = names.findIndex((name) => !held.has(name));
    keep(names);
    for (let at = 0; at < (stop.max_tokens ?? 16); at++) yield [tokenIds[at % tokenIds.length] ?? 0];
    const cached_tokens = (cached < 0 ? names.length : cached) * BLOCK_TOKENS;
    const counts = { prompt_tokens: tokenIds.length, completion_tokens: stop.max_tokens ?? 16 };
    yield { finish_reason: 'length', completion_usage: { ...counts, prompt_tokens_details: { cached_tokens } } };
  },
});

/** @param {readonly bigint[]} names */
function keep(names) {
  for (const name of names) held.delete(name);
  for (const name of names) held.add(name);
  const blockHashes = [...held].slice(0, Math.max(0, held.size - BLOCKS_MAX));
  for (const name of blockHashes) held.delete(name);
  worker.kvCache.removed({ blockHashes });
}

process.exitCode = await worker.run({ flags: process.argv.slice(2) });
