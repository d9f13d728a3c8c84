/**
 * Measures the process CPU time of one decision of the KV router: index, load, cost and choice for a prompt of 160
 * blocks, among 8, 64 and 512 workers, and its end. Then that of a decision by hashing alone, as a function makes it.
 *
 *     npm run bench:part -- bench/router-choose.ts [--json]
 */

import { BlockIndex, RankTable } from '../shared/block-index/index.ts';
import { seededRandom } from '../shared/clock/index.ts';
import { Scheduler, type SchedulingRequest } from '../shared/scheduler/index.ts';
import { kvRouterConfig } from '../shared/scheduler/kv-config.ts';
import { StatelessDecider } from '../shared/stateless-router/index.ts';
import { type BlockHashes, hashBlocks } from '../shared/tokens/index.ts';

const BLOCK_SIZE_TOKENS = 16;
const PROMPT_BLOCKS = 160;
/** Blocks that all prompts share: a system prompt. */
const SHARED_BLOCKS = 32;
/** Conversations a worker; each has its own tail. */
const SESSIONS_PER_WORKER = 8;
const ACTIVE_PER_WORKER = 4;
const DECISIONS_WARM = 20_000;
const ROUNDS = 25;
const DECISIONS_A_ROUND = 400;

interface Row {
  readonly workers: number;
  readonly costModel: 'dynamo' | 'stator';
  readonly explained: boolean;
  readonly chooseUs: number;
  readonly endUs: number;
}

function promptOf(session: number): BlockHashes {
  const tokens = new Uint32Array(PROMPT_BLOCKS * BLOCK_SIZE_TOKENS);
  for (let at = 0; at < tokens.length; at++) {
    tokens[at] = at < SHARED_BLOCKS * BLOCK_SIZE_TOKENS ? at : 1_000_000 + 7919 * session + at;
  }
  return hashBlocks(tokens, { blockSizeTokens: BLOCK_SIZE_TOKENS });
}

function measure(workers: number, costModel: 'dynamo' | 'stator', explained: boolean): Row {
  const ranks = new RankTable();
  const index = new BlockIndex({ ranks });
  let nowMs = 0;
  const scheduler = new Scheduler({
    config: kvRouterConfig({ costModel, queueThreshold: undefined }),
    blockSizeTokens: BLOCK_SIZE_TOKENS,
    ranks,
    index,
    clock: { nowMs: () => nowMs++ / 100 },
    random: seededRandom(1),
    explainedMax: explained ? 1000 : 0,
  });
  scheduler.setWorkers(
    Array.from({ length: workers }, (_, id) => ({
      id: id.toString(16),
      dataParallelStartRank: 0,
      dataParallelSize: 1,
      taints: [],
      totalKvBlocks: undefined,
      maxNumBatchedTokens: 8192,
    })),
  );
  const prompts = Array.from({ length: workers * SESSIONS_PER_WORKER }, (_, session) => promptOf(session));
  prompts.forEach(({ local, sequence }, session) => {
    index.stored(session % workers, 'device', undefined, sequence, local);
  });
  const outcome = {
    decided: () => {},
    rejected: (error: Error) => {
      throw error;
    },
  };
  const requestOf = (id: number): SchedulingRequest => ({
    id: `r${id}`,
    promptTokens: PROMPT_BLOCKS * BLOCK_SIZE_TOKENS,
    hashes: prompts[(id * 31) % prompts.length] as BlockHashes,
  });
  let begun = 0;
  let ended = 0;
  const round = (size: number): readonly [chooseUs: number, endUs: number] => {
    const requests = Array.from({ length: size }, (_, at) => requestOf(begun + at));
    const start = process.cpuUsage();
    for (const request of requests) scheduler.submit(request, outcome);
    const chosen = process.cpuUsage(start);
    begun += size;
    const middle = process.cpuUsage();
    for (; ended < begun - workers * ACTIVE_PER_WORKER; ended++) {
      scheduler.prefillDone(`r${ended}`);
      scheduler.free(`r${ended}`);
    }
    const freed = process.cpuUsage(middle);
    return [(chosen.user + chosen.system) / size, (freed.user + freed.system) / size];
  };
  for (let done = 0; done < DECISIONS_WARM; done += DECISIONS_A_ROUND) round(DECISIONS_A_ROUND);
  const rounds = Array.from({ length: ROUNDS }, () => round(DECISIONS_A_ROUND));
  return {
    workers,
    costModel,
    explained,
    chooseUs: median(rounds.map(([chooseUs]) => chooseUs)),
    endUs: median(rounds.map(([, endUs]) => endUs)),
  };
}

/** A function's own way: its requests and the loads of all workers, which are read anew every hundred requests. */
function measureStateless(workers: number): number {
  const decider = new StatelessDecider(BLOCK_SIZE_TOKENS);
  const fleet = Array.from({ length: workers }, (_, id) => ({
    id: id.toString(16),
    dataParallelStartRank: 0,
    dataParallelSize: 1,
    deviceType: undefined,
    taints: [],
  }));
  decider.setWorkers(fleet);
  const prompts = Array.from({ length: 256 }, (_, session) => promptOf(session));
  const read = () =>
    new Map(
      fleet.map(({ id }) => [
        id,
        { ranks: [{ dpRank: 0, requests: 1, decodeBlocks: 9, prefillTokens: 0 }], isDraining: false },
      ]),
    );
  let loads = read();
  let asked = 0;
  const round = (): number => {
    loads = read();
    const start = process.cpuUsage();
    for (let at = 0; at < 100; at++, asked++) {
      const prompt = {
        tokens: PROMPT_BLOCKS * BLOCK_SIZE_TOKENS,
        hashes: prompts[(asked * 31) % prompts.length] as BlockHashes,
      };
      const request = { id: `r${asked}`, prompt, conversation: undefined };
      const chosen = decider.look(request, loads, asked / 100)?.chosen();
      if (chosen !== undefined) decider.sent(chosen, request, asked / 100);
    }
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 100;
  };
  for (let warm = 0; warm < 50; warm++) round();
  return median(Array.from({ length: ROUNDS }, round));
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] as number;
}

const rows = [8, 64, 512].flatMap((workers) => [
  measure(workers, 'dynamo', false),
  measure(workers, 'dynamo', true),
  measure(workers, 'stator', true),
]);
const stateless = [8, 64, 1000].map((workers) => ({ workers, chooseUs: measureStateless(workers) }));
if (process.argv.includes('--json')) {
  console.log(JSON.stringify([...rows, ...stateless]));
} else {
  console.log('workers  model   explained  choose us  end us');
  for (const { workers, costModel, explained, chooseUs, endUs } of rows) {
    console.log(
      `${String(workers).padStart(7)}  ${costModel}  ${String(explained).padEnd(9)}  ${chooseUs.toFixed(1).padStart(9)}  ${endUs.toFixed(1).padStart(6)}`,
    );
  }
  for (const { workers, chooseUs } of stateless) {
    console.log(`${String(workers).padStart(7)}  stateless          ${chooseUs.toFixed(1).padStart(9)}`);
  }
}
