/** All content of a chat or completions stream. */
export interface ChatAnswer {
  readonly text: string;
  readonly finishReason: string | undefined;
  /** The `error` of an error event. */
  readonly error: Readonly<Record<string, unknown>> | undefined;
  readonly usage: Readonly<Record<string, number>> | undefined;
  /** Number of chunks with text. */
  readonly deltas: number;
  /** Response ids. A sound stream has one. */
  readonly ids: readonly string[];
  /** Whether `[DONE]` came last. */
  readonly isDone: boolean;
}

/** Returns the content of an answer that does not depend on who made it: everything except ids and cached tokens. */
export function saidIn({ ids: _, usage, ...answer }: ChatAnswer): object {
  return { ...answer, usage: { ...usage, prompt_tokens_details: undefined } };
}

/** An open stream. */
export interface ChatStream {
  readonly response: Response;
  /** Resolves after that many chunks with text. Rejects if the stream ends before. */
  untilDeltas(count: number): Promise<void>;
  /** The whole answer, after the end of the stream. */
  readonly answer: Promise<ChatAnswer>;
  /** Closes the connection, as a client that leaves. */
  leave(): void;
}

/** Sends a `POST` of JSON. A string body goes out unchanged. */
export function postJson(url: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...init,
    headers: { 'content-type': 'application/json', ...init.headers },
  });
}

/** Yields the `data:` of each event of a server-sent stream. */
export async function* sseData(response: Response): AsyncGenerator<string> {
  let rest = '';
  for await (const text of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
    const events = (rest + text).split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      for (const line of event.split('\n')) if (line.startsWith('data: ')) yield line.slice('data: '.length);
    }
  }
}

/** Opens a chat stream and resolves at its head. Rejects if the status is not 200. */
export async function openChat(baseUrl: string, body: Readonly<Record<string, unknown>>): Promise<ChatStream> {
  const leaving = new AbortController();
  const url = `${baseUrl}/v1/chat/completions`;
  const response = await postJson(url, { stream: true, ...body }, { signal: leaving.signal });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const tally = new ChatTally();
  const answer = tally.read(response);
  answer.catch(() => undefined); // a stream that the test leaves has no answer
  return {
    response,
    answer,
    leave: () => leaving.abort(),
    untilDeltas: (count) => tally.untilDeltas(count),
  };
}

/** Sends a chat request that streams and reads it to its end. */
export async function readChat(baseUrl: string, body: Readonly<Record<string, unknown>>): Promise<ChatAnswer> {
  return (await openChat(baseUrl, body)).answer;
}

interface Chunk {
  readonly id?: string;
  readonly error?: Record<string, unknown>;
  readonly usage?: Record<string, number> | null;
  readonly choices?: readonly { readonly delta?: { readonly content?: string }; readonly finish_reason?: string }[];
}

class ChatTally {
  #deltas = 0;
  #isOver = false;
  #waiting: { readonly count: number; resolve(): void; reject(error: Error): void }[] = [];

  async read(response: Response): Promise<ChatAnswer> {
    const ids = new Set<string>();
    let text = '';
    let last = '';
    let finishReason: string | undefined;
    let error: ChatAnswer['error'];
    let usage: ChatAnswer['usage'];
    try {
      for await (const data of sseData(response)) {
        last = data;
        if (data === '[DONE]') continue;
        const chunk = JSON.parse(data) as Chunk;
        if (chunk.id !== undefined) ids.add(chunk.id);
        error ??= chunk.error;
        usage = chunk.usage ?? usage;
        const choice = chunk.choices?.[0];
        finishReason = choice?.finish_reason ?? finishReason;
        if (!choice?.delta?.content) continue;
        text += choice.delta.content;
        this.#count();
      }
    } finally {
      this.#end();
    }
    return { text, finishReason, error, usage, deltas: this.#deltas, ids: [...ids], isDone: last === '[DONE]' };
  }

  untilDeltas(count: number): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#deltas >= count) resolve();
      else if (this.#isOver) reject(new Error(`the stream ended after ${this.#deltas} chunks`));
      else this.#waiting.push({ count, resolve, reject });
    });
  }

  #count(): void {
    this.#deltas++;
    for (const { count, resolve } of this.#waiting) if (this.#deltas >= count) resolve();
  }

  #end(): void {
    this.#isOver = true;
    const error = new Error(`the stream ended after ${this.#deltas} chunks`);
    for (const { reject } of this.#waiting) reject(error); // does nothing to promises that have resolved
  }
}
