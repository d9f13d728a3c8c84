import { sseData } from '../support/index.ts';
import type { VirtualFleet } from './virtual-fleet.ts';

export type Form = 'stream' | 'unary';

/** The whole answer of a client, whether it asked for a stream or not. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly finishReason: string | undefined;
  /** Prompt and completion tokens. */
  readonly usage: readonly (number | undefined)[];
}

export interface Asked {
  readonly answer: Promise<Answer | undefined>;
  readonly isOver: boolean;
  leave(): void;
  read(): void;
}

export const PROMPT = 'whatifamachinefails'.repeat(8);

/**
 * Asks as a client that may leave. If `isRead` is false, the client reads nothing until the test lets it.
 * @param more fields of the body
 */
export function ask(
  fleet: VirtualFleet,
  form: Form,
  maxTokens: number,
  isRead = true,
  more: Readonly<Record<string, unknown>> = {},
): Asked {
  const leaving = new AbortController();
  let isOver = false;
  let read = (): void => {};
  const reading = isRead
    ? Promise.resolve()
    : new Promise<void>((resolve) => {
        read = resolve;
      });
  const body = JSON.stringify({
    model: 'letters',
    prompt: PROMPT,
    max_tokens: maxTokens,
    ignore_eos: true,
    ...more,
    ...(form === 'stream' ? { stream: true, stream_options: { include_usage: true } } : {}),
  });
  const headers = { 'content-type': 'application/json' };
  const request = new Request('http://127.0.0.1/v1/completions', {
    method: 'POST',
    headers,
    body,
    signal: leaving.signal,
  });
  const answer = (async () => {
    try {
      const response = await fleet.app.fetch(request);
      await reading;
      return await (form === 'stream' && response.status === 200 ? readStream(response) : readUnary(response));
    } catch (error) {
      if (leaving.signal.aborted) return undefined;
      throw error;
    } finally {
      isOver = true;
    }
  })();
  answer.catch(() => undefined); // a test that waits for it sees the error
  return {
    answer,
    get isOver() {
      return isOver;
    },
    leave: () => leaving.abort(),
    read: () => read(),
  };
}

interface Body {
  readonly choices?: readonly { readonly text: string; readonly finish_reason: string | null }[];
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
}

async function readStream(response: Response): Promise<Answer> {
  let text = '';
  let finishReason: string | undefined;
  let usage: Body['usage'];
  for await (const data of sseData(response)) {
    if (data === '[DONE]')
      return { status: 200, text, finishReason, usage: [usage?.prompt_tokens, usage?.completion_tokens] };
    const chunk = JSON.parse(data) as Body;
    const [choice] = chunk.choices ?? [];
    text += choice?.text ?? '';
    finishReason = choice?.finish_reason ?? finishReason;
    usage = chunk.usage ?? usage;
  }
  throw new Error('the stream broke off');
}

async function readUnary(response: Response): Promise<Answer> {
  const text = await response.text();
  if (response.status !== 200) return { status: response.status, text, finishReason: undefined, usage: [] };
  const { choices: [choice] = [], usage } = JSON.parse(text) as Body;
  return {
    status: response.status,
    text: choice?.text ?? '',
    finishReason: choice?.finish_reason ?? undefined,
    usage: [usage?.prompt_tokens, usage?.completion_tokens],
  };
}
