import { expect } from 'vitest';
import type { StatorProcess } from './fleet.ts';
import { postJson } from './openai-http.ts';
import { waitUntil } from './wait-until.ts';

/** The worker that answered, and how much of the prompt it had cached. */
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

/** Answer of `POST /router/explain` about a prompt, in blocks. */
interface Explained {
  readonly blocks: number;
  readonly candidates: readonly { readonly worker_id: string; readonly overlap: { readonly device: number } }[];
}

const MODEL = 'stator-mini';

/** Asks `model` for a short answer to a long prompt about `topic`, which is a sentence repeated `times` times. */
export async function askAbout(
  frontend: StatorProcess,
  topic: string,
  times: number,
  model = MODEL,
): Promise<PlacedAnswer> {
  const response = await postJson(`${frontend.url}/v1/chat/completions`, requestAbout(topic, times, model));
  expect(response.status).toBe(200);
  const { usage, nvext } = (await response.json()) as Answer;
  return {
    worker: nvext.worker_id.decode_worker_id,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    prompt: usage.prompt_tokens,
  };
}

/**
 * Waits until `frontend` knows workers that hold most of that prompt, and resolves with them. A request could give the
 * prompt to one more worker, because a router that does not know yet which worker holds it goes by load.
 */
export function untilHeld(
  frontend: StatorProcess,
  topic: string,
  times: number,
  model = MODEL,
): Promise<readonly number[]> {
  return waitUntil(
    async () => {
      const response = await postJson(`${frontend.url}/router/explain`, requestAbout(topic, times, model));
      const { blocks, candidates } = (await response.json()) as Explained;
      const holders = candidates.filter(({ overlap }) => overlap.device > blocks / 2);
      return holders.length > 0 && holders.map(({ worker_id: id }) => Number(BigInt(`0x${id}`)));
    },
    { what: `a worker known to hold "${topic}"` },
  );
}

function requestAbout(topic: string, times: number, model: string) {
  const content = `${topic}: ${'parts meet where their edges fit; '.repeat(times)}`;
  return {
    model,
    max_tokens: 2,
    messages: [{ role: 'user', content }],
    nvext: { extra_fields: ['worker_id'] },
  };
}
