import { load } from './llmload.ts';
import { LONG_PROMPT_TOKENS, longPromptFlags } from './long-prompts.ts';
import { type SideOptions, startSide } from './sides.ts';

/** CPU of the frontend that mode `kv` may add to a request. */
interface KvRow {
  readonly workload: 'kv-short' | 'kv-long';
  readonly flags: readonly string[];
  readonly addedUsMax: number;
  readonly contextTokensMin: number;
}

/** Both after a warm-up in which all that a mode runs is compiled. */
const ROWS: readonly KvRow[] = [
  {
    workload: 'kv-short',
    flags: '--concurrency 64 --isl 64 --osl 8 --ignore-eos --unique-prompts --duration 6s --warmup 15000'.split(' '),
    addedUsMax: 25,
    contextTokensMin: 0,
  },
  {
    workload: 'kv-long',
    flags: [...'--stream --concurrency 2 --requests 2000 --warmup 5000'.split(' '), ...longPromptFlags(0.9)],
    addedUsMax: 300,
    contextTokensMin: LONG_PROMPT_TOKENS,
  },
];
/** Each mode in turn, so that a machine that slows down does so for both; the least of each counts. */
const ROUNDS = 3;
const PACE = { speedup: 1_000_000, decodeSpeedup: 1, maxNumSeqs: 256, msPerToken: 0 };

/**
 * Measures the CPU time that routing by KV cache adds to a request of the frontend, over round-robin on the same
 * requests.
 */
export async function measureKvMode(
  binary: string,
  model: Pick<SideOptions, 'modelFolder' | 'modelName' | 'dynamoFolder'>,
  contextTokens: number,
) {
  const results = [];
  for (const { workload, flags, addedUsMax, contextTokensMin } of ROWS) {
    if (contextTokens < contextTokensMin) continue;
    const leastUs = { 'round-robin': Number.POSITIVE_INFINITY, kv: Number.POSITIVE_INFINITY };
    for (let round = 0; round < ROUNDS; round++) {
      for (const routerMode of ['round-robin', 'kv'] as const) {
        const us = await measureUs(binary, { ...model, pace: PACE, routerMode }, flags);
        leastUs[routerMode] = Math.min(leastUs[routerMode], us);
      }
    }
    const addedUs = leastUs.kv - leastUs['round-robin'];
    const figure = `added to ${leastUs['round-robin'].toFixed(0)} us`;
    const verdict = `${addedUs <= addedUsMax ? 'holds' : 'MISSED'} (at most ${addedUsMax})`;
    results.push({ workload, figure, values: { stator: addedUs }, verdict });
  }
  return results;
}

async function measureUs(binary: string, options: SideOptions, flags: readonly string[]): Promise<number> {
  const side = await startSide('stator', options);
  try {
    const target = ['--url', side.url, '--model', options.modelName, '--watch', `frontend=${side.frontendPid}`];
    const report = await load(binary, [...target, ...flags]);
    const frontend = report.processes.find(({ name }) => name === 'frontend');
    return 1000 * (frontend?.cpu_ms_per_request ?? Number.NaN);
  } finally {
    await side.stop();
  }
}
