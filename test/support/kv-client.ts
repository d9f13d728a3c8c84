import { expect } from 'vitest';
import type { StatorProcess } from './fleet.ts';
import { postJson } from './openai-http.ts';

/** Who answered, and how much of the prompt it had cached. */
export interface PlacedAnswer {
  readonly worker: number;
  /** Tokens. */
  readonly cached: number;
  /** Tokens. */
  readonly prompt: number;
}

interface Answer {
  readonly usage: {
    readonly prompt_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  };
  readonly nvext: { readonly worker_id: { readonly decode_worker_id: number } };
}

/** One short answer of `stator-mini` to a long prompt about `topic`: a sentence said `times` times. */
export async function askAbout(frontend: StatorProcess, topic: string, times: number): Promise<PlacedAnswer> {
  const content = `${topic}: ${'parts meet where their edges fit; '.repeat(times)}`;
  const response = await postJson(`${frontend.url}/v1/chat/completions`, {
    model: 'stator-mini',
    max_tokens: 2,
    messages: [{ role: 'user', content }],
    nvext: { extra_fields: ['worker_id'] },
  });
  expect(response.status).toBe(200);
  const { usage, nvext } = (await response.json()) as Answer;
  return {
    worker: nvext.worker_id.decode_worker_id,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    prompt: usage.prompt_tokens,
  };
}
