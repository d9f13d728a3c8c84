import type { Clock, Random } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';

/** The server that is measured. */
export interface ProfiledServer {
  /** With `/v1` at its end. */
  readonly url: string;
  readonly model: string;
  readonly apiKey: string | undefined;
  readonly clock: Clock;
  readonly random: Random;
}

/** One answer, in milliseconds. */
export interface MeasuredStream {
  readonly ttftMs: number;
  /** Mean gap between two tokens; undefined for an answer of one. */
  readonly itlMs: number | undefined;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** Ids that every vocabulary has and that are no special tokens in those that are known. */
const ID_FROM = 100;
const ID_SPAN = 900;

/** A prompt that nobody has cached. */
function freshPrompt(tokens: number, random: Random): readonly number[] {
  return Array.from({ length: tokens }, () => ID_FROM + Math.floor(random.next() * ID_SPAN));
}

/**
 * Streams a completion of exactly `osl` tokens for a fresh prompt of `isl`.
 * @throws Error with one line where the server does not answer so
 */
export async function measureStream(
  { url, model, apiKey, clock, random }: ProfiledServer,
  isl: number,
  osl: number,
  signal: AbortSignal,
): Promise<MeasuredStream> {
  const body = {
    model,
    prompt: freshPrompt(isl, random),
    max_tokens: osl,
    min_tokens: osl,
    ignore_eos: true,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
  };
  const sentMs = clock.nowMs();
  const response = await post(`${url}/completions`, body, apiKey, signal);
  let firstMs: number | undefined;
  let lastMs = sentMs;
  let usage: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | undefined;
  for await (const event of eventsOf(response)) {
    const { choices = [], usage: told } = event as {
      readonly choices?: readonly { readonly text?: string }[];
      readonly usage?: typeof usage;
    };
    usage = told ?? usage;
    if (choices.length === 0) continue;
    lastMs = clock.nowMs();
    firstMs ??= lastMs;
  }
  if (firstMs === undefined) throw new Error(`${url}/completions: the stream of a completion had no token`);
  const outputTokens = usage?.completion_tokens ?? osl;
  return {
    ttftMs: firstMs - sentMs,
    itlMs: outputTokens > 1 ? (lastMs - firstMs) / (outputTokens - 1) : undefined,
    promptTokens: usage?.prompt_tokens ?? isl,
    outputTokens,
  };
}

async function post(url: string, body: object, apiKey: string | undefined, signal: AbortSignal): Promise<Response> {
  const headers = {
    'content-type': 'application/json',
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
  };
  let response: Response;
  try {
    response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal });
  } catch (thrown) {
    throw new Error(`no answer from ${url} (--url): ${reasonOf((thrown as Error).cause ?? thrown)}`);
  }
  if (response.ok) return response;
  const text = await response.text();
  throw new Error(`${url} answers with status ${response.status}: ${text.slice(0, 300)}`);
}

/** The data of server-sent events, up to `[DONE]`. */
async function* eventsOf(response: Response): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of response.body ?? []) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (!line.startsWith('data:')) continue;
      const data = line.slice('data:'.length).trim();
      if (data === '[DONE]') return;
      yield JSON.parse(data);
    }
  }
}
