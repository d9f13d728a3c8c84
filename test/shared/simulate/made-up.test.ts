import { describe, expect, it } from 'vitest';
import { ConfigError, resolveConfig } from '../../../shared/config/index.ts';
import { WorkloadSource } from '../../../shared/simulate/index.ts';
import { SharedTexts } from '../../../shared/simulate/shared-texts.ts';
import type { Workload } from '../../../shared/simulate/workload.ts';

const BLOCK = 64;

async function open(name: string, ...argv: readonly string[]): Promise<Workload> {
  const { settings } = resolveConfig('simulate', ['--workload', name, '--request-count=1500', ...argv], {});
  return new WorkloadSource().open({ ...settings, blockSize: BLOCK });
}

function idsOf({ segmentIds, segmentsFrom }: Workload, request: number): Uint32Array {
  return segmentIds.subarray(segmentsFrom[request], segmentsFrom[request + 1]);
}

function mean(values: Uint32Array): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Share of the prompt tokens in segments that more than one prompt has. */
function sharedShare({ segmentIds, inputTokens }: Workload): number {
  const uses = new Map<number, number>();
  for (const id of segmentIds) uses.set(id, (uses.get(id) ?? 0) + 1);
  const shared = segmentIds.filter((id) => uses.get(id)! > 1).length;
  return (shared * BLOCK) / inputTokens.reduce((sum, tokens) => sum + tokens, 0);
}

/** Prompts that begin with each first segment, most frequent first. */
function popularity(workload: Workload): readonly number[] {
  const counts = new Map<number, number>();
  for (let request = 0; request < workload.size; request++) {
    const [first] = idsOf(workload, request);
    counts.set(first!, (counts.get(first!) ?? 0) + 1);
  }
  return [...counts.values()].sort((one, other) => other - one);
}

const FAMILIES = ['agents', 'tenants', 'retrieval', 'chats'];

describe.each(FAMILIES)('the workload %s', (name) => {
  it('is the same for the same seed, and another one for another seed', async () => {
    const few = '--request-count=60';
    expect(await open(name, few)).toEqual(await open(name, few));
    expect((await open(name, few, '--seed=1')).inputTokens).not.toEqual((await open(name, few)).inputTokens);
  });

  it('shares about as much with every seed', async () => {
    const [one, other] = [await open(name, '--seed=1'), await open(name, '--seed=2')];
    expect(sharedShare(one) - sharedShare(other)).toBeCloseTo(0, 1);
  });

  it('takes lengths that are given', async () => {
    const workload = await open(
      name,
      ...['--input-tokens=640', '--output-tokens=7', '--length-spread=0', '--turns-per-session=1'],
      ...['--prefix-tokens-min=1280', '--prefix-tokens-max=1280', '--documents-per-prompt=2'],
    );
    const texts = name === 'retrieval' ? 2 : 1;
    expect(new Set(workload.inputTokens)).toEqual(new Set([640 + texts * 1280]));
    expect(new Set(workload.outputTokens)).toEqual(new Set([7]));
  });
});

describe('the workload agents', () => {
  it('has prompts of which 90 % are one of 32 prefixes of 40,000 tokens', async () => {
    const workload = await open('agents');
    expect(sharedShare(workload)).toBeCloseTo(0.901, 2);
    expect(Math.min(...workload.inputTokens)).toBeGreaterThanOrEqual(40_000 + 2200);
    expect(Math.max(...workload.inputTokens)).toBeLessThanOrEqual(40_000 + 6600);
    const counts = popularity(workload);
    expect(counts).toHaveLength(32);
    expect(counts[0]! / counts.at(-1)!).toBeLessThan(2.5);
  });
});

describe('the workload tenants', () => {
  it('has tenants of unequal size with prefixes of 2,000 to 40,000 tokens', async () => {
    const workload = await open('tenants', '--length-spread=0');
    const prefixes = new Set(workload.inputTokens.map((tokens) => tokens - 1000));
    expect(prefixes.size).toBeGreaterThan(55);
    expect(Math.min(...prefixes)).toBeGreaterThan(1950);
    expect(Math.max(...prefixes)).toBeLessThan(40_050);
    const counts = popularity(workload);
    expect(counts[0]! / workload.size).toBeCloseTo(0.211, 1); // 1 / (1 + 1/2 + ... + 1/64)
    expect(counts[0]! / counts[9]!).toBeGreaterThan(6);
    const even = popularity(await open('tenants', '--prefix-skew=0'));
    expect(even[0]! / even[9]!).toBeLessThan(2);
  });
});

describe('the workload retrieval', () => {
  it('has prompts of four documents of a thousand, of which some share their first ones', async () => {
    const workload = await open('retrieval');
    expect(mean(workload.inputTokens)).toBeGreaterThan(300 + 4 * 1500);
    expect(mean(workload.inputTokens)).toBeLessThan(300 + 4 * 2800);
    expect(sharedShare(workload)).toBeGreaterThan(0.25);
    expect(sharedShare(workload)).toBeLessThan(0.6);
    expect(popularity(workload).length).toBeGreaterThan(400);
  });

  it('shares a document only with prompts that have the same ones before it', () => {
    let ids = 0;
    const options = { count: 2, tokensMin: 128, tokensMax: 128, skew: 0, perPrompt: 2 };
    const texts = new SharedTexts(options, BLOCK, 1, () => ids++);
    const orders = new Set(Array.from({ length: 50 }, () => texts.draw().join()));
    expect(orders.size).toBe(2);
    const [one, other] = [...orders].map((order) => order.split(','));
    expect(one).toHaveLength(4);
    expect(new Set([...one!, ...other!]).size).toBe(8);
  });
});

describe('the workload chats', () => {
  it('begins bursts of conversations at one instant, each of three turns that grow', async () => {
    const workload = await open('chats');
    expect(workload.size).toBe(4500);
    expect(new Set(workload.arrivalMs).size).toBe(75);
    for (let first = 0; first < 30; first += 3) {
      expect(workload.nextTurn[first]).toBe(first + 1);
      expect(workload.inputTokens[first + 1]).toBeGreaterThan(
        workload.inputTokens[first]! + workload.outputTokens[first]!,
      );
    }
    expect(popularity(workload)).toHaveLength(8);
  });
});

describe('a workload refuses', () => {
  it.each([
    ['tenants', ['--prefix-tokens-min=50000'], undefined],
    [
      'tenants',
      ['--prefix-tokens-min=500', '--prefix-tokens-max=400'],
      '--prefix-tokens-min 500 is more than --prefix-tokens-max 400',
    ],
    [
      'retrieval',
      ['--num-prefix-groups=3'],
      '--documents-per-prompt 4 is more than the 3 documents of --num-prefix-groups',
    ],
  ])('%s %j', async (name, argv, message) => {
    if (message === undefined) await expect(open(name, ...argv)).resolves.toBeDefined();
    else await expect(open(name, ...argv)).rejects.toThrow(new ConfigError([message]));
  });
});
