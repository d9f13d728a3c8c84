/**
 * Measures how long a router decides again: 64 held requests, with 64 of other routers, among 8, 64 and 512 workers.
 * Prints the process CPU time of the longest turn of the event loop, and that of all turns.
 *
 *     npm run bench:part -- bench/router-replay.ts
 */

import { RankTable } from '../shared/block-index/index.ts';
import { seededRandom } from '../shared/clock/index.ts';
import { Scheduler } from '../shared/scheduler/index.ts';
import { kvRouterConfig } from '../shared/scheduler/kv-config.ts';
import { hashBlocks } from '../shared/tokens/index.ts';

const BLOCK_SIZE_TOKENS = 16;
const PROMPT_TOKENS = 160 * BLOCK_SIZE_TOKENS;
const REQUESTS = 64;
const ROUNDS = 40;
/** First rounds that do not count. */
const WARM = 10;

function promptOf(seed: number) {
  const tokens = Uint32Array.from({ length: PROMPT_TOKENS }, (_, at) => 7919 * seed + at);
  return { promptTokens: PROMPT_TOKENS, hashes: hashBlocks(tokens, { blockSizeTokens: BLOCK_SIZE_TOKENS }) };
}

function measure(workers: number): { readonly longestMs: number; readonly sumMs: number } {
  const clock = { ms: 0, nowMs: () => clock.ms };
  const ranks = new RankTable();
  const ids = Array.from({ length: workers }, (_, at) => (at + 1).toString(16));
  for (const id of ids) ranks.intern(id, 0);
  const facts = { dataParallelStartRank: 0, dataParallelSize: 1, taints: [], totalKvBlocks: 1e6, maxNumSeqs: 256 };
  const scheduler = new Scheduler({
    ...{ config: kvRouterConfig({ costModel: 'stator' }), blockSizeTokens: BLOCK_SIZE_TOKENS, ranks, index: undefined },
    ...{ clock, random: seededRandom(1), share: { isOwn: () => true, routers: 50 }, peerLagMs: () => 5 },
  });
  scheduler.setWorkers(ids.map((id) => ({ id, ...facts, maxNumBatchedTokens: 8192 })));
  let [longestMs, sumMs] = [0, 0];
  for (let round = 0; round < ROUNDS; round++) {
    const names = Array.from({ length: REQUESTS }, (_, at) => `${round}-${at}`);
    const outcome = () => ({ booked() {}, decided() {}, rejected() {} });
    for (const [at, id] of names.entries()) scheduler.submit({ id, ...promptOf(2 * at) }, outcome());
    for (const [at, id] of names.entries()) {
      const booking = {
        requestId: `p/${id}`,
        provisionalId: id,
        ...promptOf(2 * at + 1),
        uncachedTokens: PROMPT_TOKENS,
      };
      scheduler.book({ ...booking, workerId: ids[at % workers] as string, dpRank: 0 });
    }
    clock.ms += 7;
    while ((scheduler.nextTickMs ?? Number.POSITIVE_INFINITY) <= clock.ms) {
      const started = process.cpuUsage();
      scheduler.tick();
      const { user, system } = process.cpuUsage(started);
      const turnMs = (user + system) / 1000;
      if (round < WARM) continue;
      longestMs = Math.max(longestMs, turnMs);
      sumMs += turnMs / (ROUNDS - WARM);
    }
    for (const id of names) for (const each of [id, `p/${id}`]) scheduler.free(each);
    clock.ms += 1000;
  }
  return { longestMs, sumMs };
}

for (const workers of [8, 64, 512]) {
  const { longestMs, sumMs } = measure(workers);
  console.log(`${workers} workers: longest turn ${longestMs.toFixed(1)} ms, all turns ${sumMs.toFixed(1)} ms`);
}
