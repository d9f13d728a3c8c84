import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { createVllmEngine } from '../../../../shared/engines/vllm/launch.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { RecordingSink, tokenRequest } from '../recording-sink.ts';
import { type RecordedExchange, RecordedVllm } from './recorded-vllm.ts';

const FILE = new URL('../../../fixtures/engines/vllm-0.32.0/sampling-defaults.jsonl', import.meta.url);
const EXCHANGES = readFileSync(FILE, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as RecordedExchange);
/** What the generation_config.json of that model says: the likeliest token alone, so that no seed changes anything. */
const IN_FILE = { temperature: 0.5, top_k: 1, repetition_penalty: 1.05 };
const TOKENS_IN_FILE = 5;

function recorded(name: string): RecordedExchange {
  const found = EXCHANGES.find((exchange) => exchange.name === name);
  if (found === undefined) throw new Error(`no recorded exchange ${name}`);
  return found;
}

function idsOf(name: string): readonly number[] {
  const answer = JSON.parse(recorded(name).chunks.join('')) as { choices: readonly { token_ids: readonly number[] }[] };
  return answer.choices[0]?.token_ids ?? [];
}

describe('generation_config.json at a real vLLM 0.32', () => {
  it('is not filled in for tokens in and out, except the number of tokens', () => {
    expect(idsOf('generate defaults nothing')).toHaveLength(TOKENS_IN_FILE);
    // With the likeliest token alone they would be the same.
    expect(idsOf('generate defaults nothing')).not.toEqual(idsOf('generate defaults nothing again'));
    expect(idsOf('generate defaults max 12')).not.toEqual(idsOf('generate defaults max 12 b'));
  });

  it('is filled in for /v1/completions, except the number of tokens', () => {
    expect(idsOf('completions defaults nothing')).toEqual(idsOf('completions defaults nothing again'));
    expect(idsOf('completions defaults nothing')).not.toHaveLength(TOKENS_IN_FILE);
  });

  it('samples both ways alike where it comes with the request, as it does here', async () => {
    expect(idsOf('generate defaults as sent')).toEqual(idsOf('completions max 12'));
    const { body } = recorded('generate defaults as sent');
    const server = await new RecordedVllm().start();
    server.next = 'generate stream';
    const engine = createVllmEngine({ url: server.url }, { clock: systemClock, logger: captureLogger().logger });
    const { fillsInSampling } = await engine.start(new AbortController().signal);
    expect(fillsInSampling).toBeUndefined();
    const sink = new RecordingSink();
    const request = tokenRequest([9, 8], { sampling: { ...IN_FILE, seed: 2 }, stop: { max_tokens: 12 } });
    engine.generate(request, sink, new AbortController().signal);
    await sink.closed;
    await engine.stop();
    await server.stop();
    expect(server.of('POST /inference/v1/generate').at(-1)?.body.sampling_params).toEqual(body?.sampling_params);
  });
});
