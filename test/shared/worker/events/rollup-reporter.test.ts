import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import type { HostFacts } from '../../../../shared/discovery/index.ts';
import type { Engine, EngineInfo, EngineLoad, EnginePass } from '../../../../shared/engines/index.ts';
import { PASS_SAMPLES_MAX, type PlannerEventOf, readPlannerEvent } from '../../../../shared/protocol/index.ts';
import { RollupReporter, TrafficCounter } from '../../../../shared/worker/events/rollup-reporter.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const INFO: EngineInfo = {
  contextLength: 8192,
  kvBlockSizeTokens: 16,
  totalKvBlocks: 1000,
  maxNumSeqs: 256,
  maxNumBatchedTokens: undefined,
  dataParallelSize: 2,
  modelInput: 'Tokens',
  modelType: ['Chat'],
  publishesKvEvents: false,
};
const LOAD: EngineLoad = {
  dpRank: 0,
  runningRequests: 3,
  waitingRequests: 2,
  usedKvBlocks: 40,
  totalKvBlocks: 1000,
  activePrefillTokens: 70,
};
const IDLE: EngineLoad = { ...LOAD, runningRequests: 0, waitingRequests: 0, usedKvBlocks: 12, activePrefillTokens: 0 };

const passOf = (wallTimeS: number, dpRank = 0): EnginePass => ({
  dpRank,
  wallTimeS,
  prefillRequests: 1,
  prefillTokens: 128,
  prefillKvTokens: 64,
  decodeRequests: 5,
  decodeKvTokens: 900,
  queuedPrefillRequests: 2,
  queuedPrefillTokens: 256,
  queuedDecodeRequests: 1,
  queuedDecodeKvTokens: 300,
});

interface BedOptions {
  readonly host?: HostFacts;
  readonly hasPasses?: boolean;
  readonly info?: EngineInfo;
  readonly latency?: { readonly sumSeconds: number; readonly count: number };
}

function bedOf({ hasPasses = true, info = INFO, latency, host }: BedOptions = {}) {
  const clock = new VirtualClock();
  const told: PlannerEventOf<'worker.rollup'>[] = [];
  const state = { load: [LOAD], isDraining: false };
  let onPass: (pass: EnginePass) => void = () => {};
  const onPasses = (listener: typeof onPass): void => {
    onPass = listener;
  };
  const engine = {
    ...(hasPasses ? { onPasses } : {}),
    ...(latency === undefined ? {} : { tokenLatency: () => latency }),
  } as unknown as Engine;
  const traffic = new TrafficCounter(clock);
  const publisher = {
    publisherId: 'p',
    transport: 'memory' as never,
    publish: (event: unknown) => void told.push(event as never),
    dropped: 0,
    close: async () => {},
  };
  const address = { namespace: 'ns', component: 'backend', endpoint: 'generate' };
  const reporter = new RollupReporter(
    {
      worker: { clock, random: seededRandom(1), engine, address, host },
      settings: { rollupIntervalMs: 5000, gpus: 2 },
      card: { display_name: 'm', worker_type: 'aggregated' },
      instanceId: 'w0',
      engineInfo: info,
      traffic,
      load: () => state.load,
      isDraining: () => state.isDraining,
    },
    publisher,
  );
  return { clock, told, state, traffic, reporter, pass: (pass: EnginePass) => onPass(pass) };
}

describe('what a worker says of itself', () => {
  it('names its machine, if an agent has stated it', () => {
    const host = { instance_id: 'i-0123', zone: 'us-east-1b', market: 'spot' };
    const { told } = bedOf({ host });
    expect(readPlannerEvent(told[0])).toMatchObject({ kind: 'event', event: { host } });
    expect(bedOf().told[0]).not.toHaveProperty('host');
  });

  it('is said at once, every five seconds and until it stops, with a number that grows', async () => {
    const { clock, told, reporter } = bedOf();
    expect(told).toHaveLength(1);
    await clock.advance(12_000);
    expect(told.map(({ seq }) => seq)).toEqual([0, 1, 2]);
    expect(new Set(told.map(({ epoch }) => epoch)).size).toBe(1);
    reporter.stop();
    await clock.advance(60_000);
    expect(told).toHaveLength(3);
    expect(clock.pendingTimers).toBe(0);
  });

  it('is an event that everybody can read', async () => {
    const { clock, told, pass } = bedOf();
    pass(passOf(0.02));
    await clock.advance(5000);
    for (const each of told)
      expect(readPlannerEvent(JSON.parse(JSON.stringify(each)))).toMatchObject({ kind: 'event' });
  });

  it('has the sums since it began, and the facts of its engine that are known', async () => {
    const { clock, told, traffic } = bedOf();
    traffic.begin(100, false);
    await clock.advance(5000);
    traffic.begin(50, false);
    await clock.advance(5000);
    expect(told.map(({ totals }) => totals.isl_sum)).toEqual([0, 100, 150]);
    expect(told[0]?.engine).toEqual({
      gpus: 2,
      kv_block_size: 16,
      max_num_seqs: 256,
      context_length: 8192,
      max_kv_tokens: 16_000,
    });
    expect(bedOf({ info: { ...INFO, totalKvBlocks: 0 } }).told[0]?.engine).not.toHaveProperty('max_kv_tokens');
  });

  it('has the time between tokens that the engine counted, where it does', () => {
    const { told } = bedOf({ latency: { sumSeconds: 4.5, count: 90 } });
    expect(told[0]?.totals).toMatchObject({ itl_sum_s: 4.5, itl_count: 90 });
  });

  it('has the last pass of each rank that is busy, and evenly spread samples of those before', async () => {
    const { clock, told, state, pass } = bedOf();
    state.load = [LOAD, { ...LOAD, dpRank: 1 }];
    for (let at = 0; at < 500; at++) {
      pass(passOf(at / 1000));
      await clock.advance(9);
    }
    pass(passOf(9, 1));
    await clock.advance(1000);
    const [first, second] = told.at(-1)!.ranks;
    expect(first?.last).toEqual([0.499, 1, 128, 64, 5, 900, 2, 256, 1, 300]);
    expect(second).toMatchObject({ dp_rank: 1, last: [9, 1, 128, 64, 5, 900, 2, 256, 1, 300] });
    const samples = first?.samples ?? [];
    expect(samples.length).toBeGreaterThan(PASS_SAMPLES_MAX - 3);
    expect(samples.length).toBeLessThanOrEqual(PASS_SAMPLES_MAX);
    expect(samples.at(-1)?.[0]).toBeGreaterThan(0.4);
    await clock.advance(5000);
    expect(told.at(-1)!.ranks[0]).not.toHaveProperty('samples'); // said once
  });

  it('has no pass of an idle rank: what was measured before does not wait any more', async () => {
    const { clock, told, state, pass } = bedOf();
    pass(passOf(0.02));
    state.load = [IDLE];
    await clock.advance(5000);
    expect(told.at(-1)!.ranks[0]?.last).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
  });

  it('makes up what waits and decodes, without a time, for engines that do not tell of passes', () => {
    const { told } = bedOf({ hasPasses: false });
    expect(told[0]).toMatchObject({ has_passes: false });
    expect(told[0]?.ranks).toEqual([
      {
        dp_rank: 0,
        running: 3,
        waiting: 2,
        kv_blocks: 40,
        kv_blocks_max: 1000,
        prefill_tokens: 70,
        last: [0, 0, 0, 0, 3, 640, 2, 70, 0, 0],
      },
    ]);
  });

  it('says that it drains, once it does', () => {
    const { told, state, reporter } = bedOf();
    state.isDraining = true;
    reporter.report();
    expect(told.map(({ draining }) => draining)).toEqual([undefined, true]);
  });
});
