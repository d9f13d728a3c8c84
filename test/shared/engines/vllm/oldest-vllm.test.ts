import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import type { Engine } from '../../../../shared/engines/index.ts';
import { createVllmEngine } from '../../../../shared/engines/vllm/launch.ts';
import type { EngineRequest } from '../../../../shared/protocol/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { waitUntil } from '../../../support/index.ts';
import { RecordingSink, tokenRequest } from '../recording-sink.ts';
import { RecordedVllm } from './recorded-vllm.ts';

const never = new AbortController().signal;
const PROMPT = Array.from({ length: 70 }, (_, at) => ((at * 7) % 250) + 1);

describe('the oldest vLLM that is served, as it was recorded', () => {
  let server: RecordedVllm;
  let engine: Engine;

  beforeEach(async () => {
    server = await new RecordedVllm('0.20.2').start();
    engine = createVllmEngine(
      { url: server.url, scrapeIntervalMs: 20 },
      { clock: systemClock, logger: captureLogger().logger },
    );
  });

  afterEach(async () => {
    await engine.stop();
    await server.stop();
  });

  async function ask(name: string, fields: Partial<EngineRequest> = {}): Promise<RecordingSink> {
    server.next = name;
    const sink = new RecordingSink();
    engine.generate(tokenRequest(PROMPT, { stop: { max_tokens: 8 }, ...fields }), sink, never);
    await sink.closed;
    return sink;
  }

  it('is detected, and follows no events without a configured endpoint', async () => {
    const info = await engine.start(never);
    expect(info).toMatchObject({ contextLength: 4096, kvBlockSizeTokens: 32, totalKvBlocks: 512, dataParallelSize: 1 });
    expect(info.publishesKvEvents).toBe(false);
    await waitUntil(() => engine.metricsText?.() !== undefined);
    expect(engine.load()).toMatchObject([{ runningRequests: 0, waitingRequests: 0 }]);
  });

  it('gives tokens, usage and what was cached', async () => {
    await engine.start(never);
    const sink = await ask('generate stream again (cached)');
    expect(sink.ids[0]).toHaveLength(8);
    expect(sink.usage).toMatchObject({
      prompt_tokens: 70,
      completion_tokens: 8,
      prompt_tokens_details: { cached_tokens: 64 },
    });
    expect([sink.finish, sink.isEnded]).toEqual(['length', true]);
  });

  it('gives log probabilities by tokens that it names in text', async () => {
    await engine.start(never);
    const sink = await ask('generate logprobs', { output: { logprobs: 2 } });
    const tops = sink.outputs.flatMap(({ top_logprobs: each = [] }) => each);
    expect(tops.length).toBeGreaterThan(0);
    for (const [at, top] of tops.entries()) expect(top?.[0]?.token_id, `token ${at}`).toBe(sink.ids[0]?.[at]);
  });

  it('gives a whole answer without usage, several choices, and the reason why it refuses', async () => {
    await engine.start(never);
    const whole = await ask('generate kv params', { output: { prompt_logprobs: 0 } });
    expect([whole.ids[0]?.length, whole.usage, whole.isEnded]).toEqual([1, undefined, true]);
    const both = await ask('generate n 2', { sampling: { n: 2 }, stop: { max_tokens: 3 } });
    expect(both.ids.map(({ length }) => length)).toEqual([3, 3]);
    expect((await ask('generate bad token')).error?.cause).toBe('Token id 99999 is out of vocabulary');
  });

  it('empties its cache, sleeps, wakes, and loads an adapter once', async () => {
    await engine.start(never);
    await engine.clearKvBlocks?.(never);
    await engine.sleep?.(1, never);
    await engine.wake?.([], never);
    server.next = 'load lora twice';
    await engine.loadLora?.('ad', '/adapters/ad', never);
    server.next = 'unload lora';
    await engine.unloadLora?.('ad', never);
  });
});
