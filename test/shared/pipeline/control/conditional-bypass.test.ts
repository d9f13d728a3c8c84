import { describe, expect, it } from 'vitest';
import { conditionalBypass, type ExplanationSource } from '../../../../shared/pipeline/index.ts';
import type { RouteRequest } from '../../../../shared/router/index.ts';
import { type ExplanationRecord, readConditionalDisaggregation } from '../../../../shared/scheduler/index.ts';
import { worker } from '../fixtures.ts';

interface Facts {
  readonly promptTokens: number;
  /** Blocks of 16 tokens that the decode worker has. */
  readonly cachedBlocks?: number;
  readonly prefillTokens?: number;
  readonly decodeBlocks?: number;
}

function record(
  id: string,
  { promptTokens }: Facts,
  device: number,
  prefill: number,
  decode: number,
): ExplanationRecord {
  const candidate = {
    worker_id: id,
    dp_rank: 0,
    cost: 0,
    overlap: { device, host_pinned: 0, disk: 0, shared: 0 },
    load: { prefill_tokens: prefill, decode_blocks: decode, added_blocks: 0, requests: 0 },
    terms: {},
    factor: 1,
  };
  return {
    request_id: 'r',
    cost_model: 'dynamo',
    prompt_tokens: promptTokens,
    blocks: 0,
    temperature: 0,
    waited_ms: 0,
    chosen: { worker_id: id, dp_rank: 0, reason: 'cost' },
    failure: null,
    candidates: [candidate],
  };
}

/** Whether the prompt is computed by the decode worker `d`, beside the prefill worker `p` of 1,000 tokens a pass. */
function bypasses(config: Record<string, unknown>, facts: Facts, source?: ExplanationSource['explain']) {
  const explain = async ({ pool }: RouteRequest): Promise<ExplanationRecord> =>
    pool?.role === 'prefill'
      ? record('p', facts, 0, facts.prefillTokens ?? 0, 0)
      : record('d', facts, facts.cachedBlocks ?? 0, 0, facts.decodeBlocks ?? 0);
  const bypass = conditionalBypass(readConditionalDisaggregation(config), { explain: source ?? explain });
  const ask = (role: 'prefill' | 'decode'): RouteRequest => ({
    id: 'r',
    pool: { key: role, role, blockSizeTokens: 16 },
    routing: {},
    override: undefined,
    tokenIds: undefined,
    excluded: new Set(),
  });
  return bypass(
    { request: ask('prefill'), workers: [{ ...worker('p'), maxNumBatchedTokens: 1000 }] },
    { request: ask('decode'), workers: [{ ...worker('d'), totalKvBlocks: 100 }] },
  );
}

describe('a prompt', () => {
  it('is computed by the decode worker when little of it is left to compute', async () => {
    expect(await bypasses({}, { promptTokens: 320, cachedBlocks: 10 })).toBe(true);
    expect(await bypasses({}, { promptTokens: 320, cachedBlocks: 2 })).toBe(false);
    expect(await bypasses({}, { promptTokens: 32_000, cachedBlocks: 1500 })).toBe(false);
  });

  it('is computed there when the prefill worker is full', async () => {
    const config = { policy: 'prefill_load', prefill_busy_threshold: 2 };
    expect(await bypasses(config, { promptTokens: 320, prefillTokens: 2001 })).toBe(true);
    expect(await bypasses(config, { promptTokens: 320, prefillTokens: 2000 })).toBe(false);
  });

  it('is not when the decode worker has no room to spare', async () => {
    const facts = { promptTokens: 320, cachedBlocks: 10, decodeBlocks: 91 };
    expect(await bypasses({ decode_busy_threshold: 0.9 }, facts)).toBe(false);
    expect(await bypasses({ decode_busy_threshold: 0.95 }, facts)).toBe(true);
  });

  it('goes its usual way when the router does not say', async () => {
    const silent = () => Promise.reject(new Error('nobody answers'));
    expect(await bypasses({}, { promptTokens: 320, cachedBlocks: 10 }, silent)).toBe(false);
  });
});
