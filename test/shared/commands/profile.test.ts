import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SYSTEM } from '../../../shared/clock/index.ts';
import { runProfile } from '../../../shared/commands/index.ts';
import { type DecodePoint, tablesOf } from '../../../shared/commands/profile/profile.ts';
import { readTimingProfile } from '../../../shared/engines/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'stator-profile-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('stator profile over answer lengths', () => {
  /** Prompt and answer lengths that were asked for, in order. */
  let asked: (readonly [number, number])[] = [];
  let url = '';
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    const { prompt, max_tokens: tokens } = JSON.parse(text) as { prompt: number[]; max_tokens: number };
    asked.push([prompt.length, tokens]);
    const events = Array.from({ length: tokens }, () => ({ choices: [{ text: 'a' }] }));
    const usage = { choices: [], usage: { prompt_tokens: prompt.length, completion_tokens: tokens } };
    response.setHeader('content-type', 'text/event-stream');
    response.end([...events, usage].map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
  });
  beforeAll(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  });
  afterAll(() => server.close());
  beforeEach(() => {
    asked = [];
  });

  const profile = (...flags: readonly string[]) =>
    runProfile(
      [`--url=${url}`, '--model=m', '--kv-tokens=1000', '--isl=8,16', '--concurrency=1,2', '--repeats=1', ...flags],
      {},
      SYSTEM,
    );
  const decodeOf = (output: string) => JSON.parse(readFileSync(join(output, 'decode_raw_data.json'), 'utf8'));

  it('measures each prompt length with each, and tells the planner of each pair', async () => {
    const output = join(folder, 'both');
    const told = await profile('--osl=4,12', `--output=${output}`);
    expect(decodeOf(output).y_context_length).toEqual([10, 10, 14, 14, 18, 18, 22, 22]);
    for (const pair of ['prompts of 8, answers of 4', 'prompts of 16, answers of 12']) expect(told).toContain(pair);
    expect(told.match(/--planner-config '\{"rate_requests_per_second": [\d.]+\}'/g)).toHaveLength(4);
  });

  it('measures what was added alone, and nothing of what is known', async () => {
    const output = join(folder, 'grows');
    await profile('--osl=4', `--output=${output}`);
    asked = [];
    await profile('--osl=4,12', `--output=${output}`);
    const [, ...afterWarming] = asked; // the first request of a run warms the server
    expect(new Set(afterWarming.map(String))).toEqual(new Set(['8,12', '16,12']));
    asked = [];
    await profile('--osl=12', `--output=${output}`);
    expect(asked).toEqual([]);
    expect(decodeOf(output).y_context_length).toHaveLength(8);
  });

  it('leaves out what the KV cache does not hold, and says so when that is all', async () => {
    const output = join(folder, 'small');
    await profile('--kv-tokens=45', '--osl=4,12', `--output=${output}`);
    expect(decodeOf(output).y_context_length).toEqual([10, 10, 14, 14, 18, 18, 22]);
    await expect(profile('--kv-tokens=11', '--osl=4,12', `--output=${output}-er`)).rejects.toThrow(
      'no load fits into --kv-tokens 11: even 1 stream with prompts of 8 and answers of 4 tokens need more',
    );
    expect(asked.filter(([, tokens]) => tokens > 12)).toEqual([]);
  });

  it('refuses an answer of one token: it has no time between tokens', async () => {
    await expect(profile('--osl=1,12')).rejects.toThrow('--osl "1": allowed: a whole number from 2 to 100000');
  });
});

describe('tables of a profile', () => {
  const lengths = fc.uniqueArray(fc.integer({ min: 2, max: 64 }), { minLength: 1, maxLength: 4 });
  /** A worker that is linear in streams and context, measured at every pair of lengths. */
  const grid = fc.record({ isl: lengths, osl: lengths, concurrency: lengths }).map((axes) => {
    const loads = axes.isl.flatMap((isl) =>
      axes.osl.flatMap((osl) => axes.concurrency.map((concurrency) => ({ isl, osl, concurrency }))),
    );
    return loads.map((load): DecodePoint => {
      const itlMs = 5 + load.concurrency * (1 + (load.isl + load.osl / 2) / 100);
      return { ...load, itlMs, ttftMs: 50, requestsPerSecond: 1 };
    });
  });

  it('give the simulator the time that was measured, wherever it was measured', async () => {
    const property = fc.asyncProperty(grid, async (decode) => {
      const tables = tablesOf({ prefill: [{ isl: 8, ttftMs: 50 }], decode }, 100_000);
      for (const [name, table] of Object.entries(tables)) writeFileSync(join(folder, name), JSON.stringify(table));
      const timing = await readTimingProfile(folder);
      for (const { isl, osl, concurrency, itlMs } of decode) {
        const context = isl + osl / 2;
        expect(timing.decodeMs(concurrency * context, context, 100_000)).toBeCloseTo(itlMs, 6);
      }
    });
    await fc.assert(property, { numRuns: 40 });
  });

  it('have one time a place: that of the longest answers', () => {
    const point = { concurrency: 2, ttftMs: 50, requestsPerSecond: 1 };
    const decode = [
      { ...point, isl: 30, osl: 20, itlMs: 9 },
      { ...point, isl: 20, osl: 40, itlMs: 7 },
      { ...point, isl: 30, osl: 40, itlMs: 11 },
    ];
    expect(tablesOf({ prefill: [], decode }, 1000)['decode_raw_data.json']).toMatchObject({
      y_context_length: [40, 50],
      z_itl: [7, 11],
    });
  });
});
