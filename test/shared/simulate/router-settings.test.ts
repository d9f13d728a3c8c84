import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ConfigError, resolveConfig, TABLE } from '../../../shared/config/index.ts';
import { simulate, simulatedFleet, simulationOptions, WorkloadSource } from '../../../shared/simulate/index.ts';

/** A busy pool: prompts that share beginnings come faster than they are computed, so that they queue. */
const BUSY = [
  ...['--workload', 'poisson', '--request-count', '240', '--arrival-interval-ms', '60', '--seed', '3'],
  ...['--input-tokens', '6144', '--output-tokens', '200', '--length-spread', '0.8', '--shared-prefix-ratio', '0.5'],
  ...['--num-gpu-blocks', '6000', '--router-mode', 'kv'],
];
function model(name: string): string {
  return fileURLToPath(new URL(`../../fixtures/router/models/${name}`, import.meta.url));
}

/** The timing model that predicts prefills. */
const AIC = [...['--aic-backend', 'vllm', '--aic-system', 'h100_sxm'], ...['--aic-model-path', model('llama-3.1-8b')]];
const EXPERTS = ['--aic-backend', 'vllm', '--aic-system', 'h100_sxm', '--aic-model-path', model('mixtral-8x7b')];

const DYNAMO = ['--router-cost-model', 'dynamo'];
const PREDICTED = ['--router-prefill-load-model', 'aic', ...AIC];

interface Case {
  /** First flag of the row. */
  readonly flag: string;
  readonly with?: readonly string[];
  /** The two values, as arguments. */
  readonly values: readonly [readonly string[], readonly string[]];
}

function on(flag: string): Case['values'] {
  return [[`--${flag}`], [`--no-${flag}`]];
}

function of(flag: string, one: string, other: string): Case['values'] {
  return [
    [`--${flag}`, one],
    [`--${flag}`, other],
  ];
}

const UNDER_BOTH: readonly Case[] = [
  { flag: '--router-queue-threshold', values: of('router-queue-threshold', 'auto', '0.5') },
  { flag: '--router-queue-threshold', values: of('router-queue-threshold', '0', 'None') },
  {
    flag: '--router-queue-policy',
    with: ['--router-queue-threshold', '0.2'],
    values: of('router-queue-policy', 'fcfs', 'lcfs'),
  },
  {
    flag: '--router-queue-policy',
    with: ['--router-queue-threshold', '0.2'],
    values: of('router-queue-policy', 'fcfs', 'wspt'),
  },
  { flag: '--router-kv-events', with: ['--kv-event-lag-ms', '1000'], values: on('router-kv-events') },
  { flag: '--router-ttl-secs', with: ['--no-router-kv-events'], values: of('router-ttl-secs', '0.5', '120') },
  { flag: '--router-replica-sync', with: ['--routers', '3'], values: on('router-replica-sync') },
];

const BY_FORMULA: readonly Case[] = [
  { flag: '--router-track-output-blocks', with: DYNAMO, values: on('router-track-output-blocks') },
  { flag: '--router-track-active-blocks', with: DYNAMO, values: on('router-track-active-blocks') },
  { flag: '--router-assume-kv-reuse', with: DYNAMO, values: on('router-assume-kv-reuse') },
  { flag: '--router-mode', values: of('router-mode', 'kv', 'round-robin') },
  { flag: '--load-aware', values: [['--load-aware'], []] },
  { flag: '--router-kv-overlap-score-credit', values: of('router-kv-overlap-score-credit', '1', '0.2') },
  { flag: '--router-kv-overlap-score-weight', values: of('router-kv-overlap-score-weight', '0', '2') },
  { flag: '--router-prefill-load-scale', values: of('router-prefill-load-scale', '1', '8') },
  { flag: '--router-temperature', values: of('router-temperature', '0', '0.7') },
  { flag: '--router-track-prefill-tokens', values: on('router-track-prefill-tokens') },
  { flag: '--router-prefill-load-model', with: AIC, values: of('router-prefill-load-model', 'none', 'aic') },
  { flag: '--aic-system', with: PREDICTED, values: of('aic-system', 'a100_sxm', 'b200_sxm') },
  {
    flag: '--aic-model-path',
    with: PREDICTED.slice(0, -2),
    values: of('aic-model-path', model('llama-3.1-8b'), model('deepseek-v3')),
  },
  {
    flag: '--aic-attention-dp-size',
    with: ['--router-prefill-load-model', 'aic', ...EXPERTS, '--router-queue-threshold', '0.2'],
    values: of('aic-attention-dp-size', '1', '8'),
  },
  { flag: '--aic-tp-size', with: PREDICTED, values: of('aic-tp-size', '1', '8') },
];

/** Flags of the router that no two runs of the simulator can tell apart, and what their rows say of it. */
const NOT_SIMULATED: Readonly<Record<string, string>> = {
  '--router-snapshot-threshold': 'Event messages after which a snapshot',
  '--router-reset-states': 'stored router state',
  '--router-durable-kv-events': 'Has no effect',
  '--router-event-threads': 'one thread does the work',
  '--aic-backend': 'the same for all',
  '--aic-backend-version': 'has none and warns',
  '--aic-moe-tp-size': 'only checks',
  '--aic-moe-ep-size': 'only checks',
};

/** Where each request went, and how long it waited in a router. */
async function decisions(args: readonly string[]): Promise<string> {
  const config = resolveConfig('simulate', args, {});
  const fleet = await simulatedFleet(config, () => {});
  const workload = await new WorkloadSource().open({ ...config.settings, blockSize: fleet.engine.blockSizeTokens });
  const { answeredBy, queuedMs } = simulate(await simulationOptions(config, workload, fleet));
  return Array.from(answeredBy, (rank, at) => `${rank} ${Math.round(queuedMs[at]!)}`).join('\n');
}

async function expectToDiffer({ with: also = [], values: [one, other] }: Case, base: readonly string[]): Promise<void> {
  const first = await decisions([...base, ...also, ...one]);
  expect(first).toBe(await decisions([...base, ...also, ...one])); // the same settings decide the same
  expect(first).not.toBe(await decisions([...base, ...also, ...other]));
}

describe('each setting of the router decides something', () => {
  describe.each(['stator', 'dynamo'])('with the cost model %s', (costModel) => {
    it.each(UNDER_BOTH)('$flag: $values', (row) => expectToDiffer(row, [...BUSY, '--router-cost-model', costModel]));
  });

  it.each(BY_FORMULA)('$flag: $values', (row) => expectToDiffer(row, BUSY));

  it('each mode decides otherwise than the others', async () => {
    const modes = ['round-robin', 'random', 'power-of-two', 'least-loaded', 'device-aware-weighted', 'direct', 'kv'];
    const fleet = [...BUSY, '--num-cpu-workers', '2'];
    const all = await Promise.all(modes.map((mode) => decisions([...fleet, '--router-mode', mode])));
    expect(new Set(all).size).toBe(modes.length);
  });

  it('and every one is here that users of Dynamo have, or its row says why it is not', () => {
    const flags = [...TABLE.values()]
      .filter(({ usedBy, source }) => usedBy.includes('frontend') && source.startsWith('Dynamo'))
      .flatMap(({ flags: [first] }) => (first !== undefined && isOfRouter(first) ? [first] : []));
    const tried = [...UNDER_BOTH, ...BY_FORMULA].map(({ flag }) => flag);
    const missing = flags.filter((flag) => !tried.includes(flag) && NOT_SIMULATED[flag] === undefined);
    expect(missing).toEqual([]);
    const abouts = new Map([...TABLE.values()].map(({ flags: [first], about }) => [first, about]));
    for (const [flag, says] of Object.entries(NOT_SIMULATED)) expect(abouts.get(flag), flag).toContain(says);
  });
});

function isOfRouter(flag: string): boolean {
  return /^--(router|load-aware|aic)/.test(flag);
}

describe('the mode device-aware-weighted', () => {
  it('gives CPU workers the share of the requests that the ratio says', async () => {
    const share = async (ratio: string): Promise<number> => {
      const config = resolveConfig(
        'simulate',
        [...BUSY, '--router-mode', 'device-aware-weighted', '--num-cpu-workers', '2'],
        {
          DYN_ENCODER_CUDA_TO_CPU_RATIO: ratio,
        },
      );
      const fleet = await simulatedFleet(config, () => {});
      const workload = await new WorkloadSource().open({ ...config.settings, blockSize: 16 });
      const { answeredBy } = simulate(await simulationOptions(config, workload, fleet));
      return answeredBy.filter((rank) => rank < 2).length / answeredBy.length;
    };
    expect(await share('1')).toBeGreaterThan(0.3);
    expect(await share('8')).toBeLessThan(0.2);
  });

  it('refuses more CPUs than there are workers', async () => {
    await expect(decisions([...BUSY, '--num-cpu-workers', '5'])).rejects.toThrow(ConfigError);
  });
});
