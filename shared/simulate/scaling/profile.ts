import { passMs, type SchedulerOptions } from '../../engines/mocker/index.ts';
import type { ForwardPass } from '../../planner/index.ts';

const PROMPTS = [256, 512, 1024, 2048, 4096];
const BATCHES = [1, 4, 16, 48, 128, 256];
const CONTEXTS = [600, 1600];

/** Passes of a mock engine over a grid of loads, as they would be measured: at most what a planner keeps of each kind. */
export function profilePasses(
  engine: SchedulerOptions,
  kind: 'prefill' | 'decode' | 'aggregated',
): readonly (readonly ForwardPass[])[] {
  const capacityTokens = engine.numGpuBlocks * engine.blockSizeTokens;
  const prompts = kind === 'decode' ? [0] : kind === 'prefill' ? PROMPTS : [0, ...PROMPTS];
  const decodes =
    kind === 'prefill' ? [[0, 0] as const] : BATCHES.flatMap((batch) => CONTEXTS.map((each) => [batch, each] as const));
  return prompts.flatMap((tokens) =>
    decodes.flatMap(([batch, context]) => {
      const kvTokens = batch * context;
      if (tokens + batch === 0 || batch > engine.maxNumSeqs || kvTokens > capacityTokens) return [];
      const prefills = tokens > 0 ? 1 : 0;
      const work = { prefills, prefillStart: 0, prefillEnd: tokens, decodes: batch, decodeContext: kvTokens };
      const wallTimeS = passMs(work, capacityTokens, engine) / 1000;
      return [[passOf(prefills, tokens, batch, kvTokens, wallTimeS)]];
    }),
  );
}

function passOf(
  prefillRequests: number,
  prefillTokens: number,
  decodeRequests: number,
  decodeKvTokens: number,
  wallTimeS: number,
): ForwardPass {
  return {
    workerId: 'profile',
    dpRank: 0,
    wallTimeS,
    prefillRequests,
    prefillTokens,
    prefillKvTokens: 0,
    decodeRequests,
    decodeKvTokens,
    queuedPrefillRequests: 0,
    queuedPrefillTokens: 0,
    queuedDecodeRequests: 0,
    queuedDecodeKvTokens: 0,
  };
}
