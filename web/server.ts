/** Root of the server: the page is one folder below it, also behind a prefix of the host. */
export const ROOT = new URL('..', location.href.split('#')[0]);

const KEY_ITEM = 'stator-console-key';
const RETRY_MS = 1000;
const RETRY_MS_MAX = 15_000;
/** Silence after which a connection counts as broken, in milliseconds. The server sends something every 15 seconds. */
const SILENCE_MS_MAX = 45_000;
/** Characters that a header can have. */
const KEY = /^[\x21-\x7e]+$/;

/** Returns the key that the user has entered, which lives as long as the tab; empty without one. */
export function savedKey(): string {
  return sessionStorage.getItem(KEY_ITEM) ?? '';
}

export function saveKey(key: string): void {
  if (key === '') sessionStorage.removeItem(KEY_ITEM);
  else sessionStorage.setItem(KEY_ITEM, key);
}

/** A response that is no success. */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Sends a request to the server. Rejects with `Refused` if the response is no success. @param path below the root */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = savedKey();
  if (key !== '' && !headers.has('authorization')) {
    if (!KEY.test(key)) throw new Refused(401, 'The key has a space or a letter that no key has');
    headers.set('authorization', `Bearer ${key}`);
  }
  const response = await fetch(new URL(path.replace(/^\//, ''), ROOT), { ...init, headers });
  if (response.ok) return response;
  throw new Refused(response.status, await messageOf(response));
}

async function messageOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return `${response.status} ${response.statusText}`; // not from Stator: a proxy's page
  }
}

/** One event of a stream. */
export interface StreamEvent {
  /** Empty if the event has no name. */
  readonly name: string;
  readonly data: string;
}

/** Reads the events of a response as they come. @param heard runs whenever bytes come, also those of a comment */
export async function* eventsOf(response: Response, heard = (): void => {}): AsyncGenerator<StreamEvent> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const parts = (rest + value).split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const lines = part.split('\n');
      const fieldOf = (field: string): string =>
        lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2) ?? '';
      if (lines.some((line) => line.startsWith('data: '))) yield { name: fieldOf('event'), data: fieldOf('data') };
    }
  }
}

/** State of a connection that is kept up. */
export type LinkState =
  | { readonly kind: 'live' | 'connecting' }
  | { readonly kind: 'refused'; readonly error: Refused };

/** Receives what comes over a connection. */
export interface LinkListener {
  event(event: StreamEvent): void;
  state(state: LinkState): void;
}

/**
 * Follows the events at a path until the returned function is called, and connects again after a break. It does not
 * follow while the page is hidden, so that the server does no work for it.
 */
export function follow(path: string, listener: LinkListener): () => void {
  let ending: AbortController | undefined;
  const look = (): void => {
    if (document.hidden) {
      ending?.abort();
      ending = undefined;
    } else if (ending === undefined) {
      ending = new AbortController();
      void keepUp(path, listener, ending.signal);
    }
  };
  document.addEventListener('visibilitychange', look);
  look();
  return () => {
    document.removeEventListener('visibilitychange', look);
    ending?.abort();
  };
}

async function keepUp(path: string, listener: LinkListener, signal: AbortSignal): Promise<void> {
  let waitMs = RETRY_MS;
  while (!signal.aborted) {
    listener.state({ kind: 'connecting' });
    try {
      await listen(path, listener, signal, () => {
        waitMs = RETRY_MS;
      });
    } catch (thrown) {
      if (signal.aborted) return;
      if (thrown instanceof Refused) {
        listener.state({ kind: 'refused', error: thrown });
        if (thrown.status === 401 || thrown.status === 403) return; // another key is needed
      }
      // Otherwise the connection broke, and the next one follows
    }
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    waitMs = Math.min(RETRY_MS_MAX, waitMs * 2);
  }
}

/** Follows the events of one connection until it ends or falls silent. @param began runs once the server answers */
async function listen(path: string, listener: LinkListener, signal: AbortSignal, began: () => void): Promise<void> {
  const silent = new AbortController();
  const watch = () => setTimeout(() => silent.abort(), SILENCE_MS_MAX);
  let timer = watch();
  const heard = (): void => {
    clearTimeout(timer);
    timer = watch();
  };
  try {
    const ending = AbortSignal.any([signal, silent.signal]);
    const response = await ask(path, { headers: { accept: 'text/event-stream' }, signal: ending });
    listener.state({ kind: 'live' });
    began();
    for await (const event of eventsOf(response, heard)) if (!signal.aborted) listener.event(event);
  } finally {
    clearTimeout(timer);
  }
}
