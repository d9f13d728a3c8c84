import type { Frontend } from '../../frontends/process/index.ts';

export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

/** A piece of an answer. */
export interface ChatPiece {
  readonly kind: 'answer' | 'thought';
  readonly text: string;
}

/** Answers a chat. Rejects with an Error of one line when there is none; ends without one when `signal` aborts. */
export type Chat = (messages: readonly ChatMessage[], signal: AbortSignal) => AsyncIterable<ChatPiece>;

/** What is read of a chunk of a chat stream, and of an error. */
interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null };
  }[];
  readonly error?: { readonly message?: string };
}

/** Chats with `model` through the frontend's own route, without a socket. */
export function chatThrough({ app }: Pick<Frontend, 'app'>, path: string, model: string): Chat {
  return async function* (messages, signal) {
    const response = await app.fetch(
      new Request(`http://localhost${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages, stream: true }),
        signal,
      }),
    );
    if (!response.ok) throw failureOf((await response.json()) as Chunk);
    for await (const chunk of readChunks(response, signal)) {
      if (chunk.error !== undefined) throw failureOf(chunk);
      const { content, reasoning_content: thought } = chunk.choices?.[0]?.delta ?? {};
      if (thought) yield { kind: 'thought', text: thought };
      if (content) yield { kind: 'answer', text: content };
    }
  };
}

function failureOf({ error }: Chunk): Error {
  return new Error(error?.message ?? 'there is no answer');
}

/** The JSON of each event up to `[DONE]`. */
async function* readChunks(response: Response, signal: AbortSignal): AsyncGenerator<Chunk> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const leave = (): void => void reader?.cancel().catch(() => undefined); // it has ended already
  signal.addEventListener('abort', leave, { once: true });
  try {
    let text = '';
    for (;;) {
      const read = await reader?.read();
      if (read === undefined || read.done) return;
      const events = (text + read.value).split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1];
        if (data === '[DONE]') return;
        if (data !== undefined) yield JSON.parse(data) as Chunk;
      }
    }
  } finally {
    signal.removeEventListener('abort', leave);
    leave();
  }
}
