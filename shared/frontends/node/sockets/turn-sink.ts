import { openAiErrorBody, toServeError } from '../../../errors/index.ts';
import type { FrameSink } from '../../http/exchange/exchange.ts';

/** Outlet for the events of a response. */
interface EventOutlet {
  /** Sends an event, which is JSON text. */
  send(event: string): void;
  flush(): void;
  isBlocked(): boolean;
  onUnblocked(callback: () => void): void;
}

/** Headers of a refusal that reach the client: when it may ask again, the request id, and what was left out. */
const TOLD = /^(?:retry-after|x-should-retry|x-request-id|x-ratelimit-.*|warning)$/;
const GOOD_END = /^\{"type":"response\.(?:completed|incomplete)"/;
const FAILURE = '{"error":';
/** Statuses that OpenAI documents for WebSockets; over HTTP this one is 404. */
const STATUS_OF: Readonly<Record<string, number>> = { previous_response_not_found: 400 };

interface ErrorBody {
  readonly error: { readonly code: string | null };
}

/** Returns a failure as the event that clients of a WebSocket read. */
export function errorEvent(status: number, { error }: ErrorBody, headers?: Readonly<Record<string, string>>): string {
  return JSON.stringify({
    type: 'error',
    status: STATUS_OF[error.code ?? ''] ?? status,
    error,
    ...(headers === undefined || Object.keys(headers).length === 0 ? {} : { headers }),
  });
}

/** Writes a response in HTTP form to a WebSocket: the data of each event, and a refusal as an `error` event. */
export class TurnSink implements FrameSink {
  readonly #outlet: EventOutlet;
  readonly #onOver: (isGood: boolean) => void;
  readonly #closed = new AbortController();
  #status = 0;
  #headers: Readonly<Record<string, string>> = {};
  #isStream = false;
  /** Text of an incomplete event, or the body of a refusal. */
  #text = '';
  #isFirst = true;
  #isGood = false;
  #isOver = false;

  /**
   * @param onOver runs once, even if the client has left; `isGood` says whether the next turn can follow the response
   */
  constructor(outlet: EventOutlet, onOver: (isGood: boolean) => void) {
    this.#outlet = outlet;
    this.#onOver = onOver;
  }

  get isNew(): boolean {
    return this.#status === 0;
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.#status = status;
    this.#headers = headers;
    this.#isStream = headers['content-type'] === 'text/event-stream';
  }

  write(frame: string | Uint8Array): void {
    if (this.#isOver) return;
    this.#text += typeof frame === 'string' ? frame : Buffer.from(frame).toString('latin1');
    if (this.#isStream) this.#tellWhole();
  }

  flush(): void {
    this.#outlet.flush();
  }

  end(): void {
    if (this.#isOver) return;
    if (!this.#isStream) this.#refuse(this.#text);
    this.#finish();
  }

  breakOff(reason: Error): void {
    if (this.#isOver) return;
    const error = toServeError(reason);
    this.#isGood = false;
    this.#outlet.send(errorEvent(error.status, openAiErrorBody(error)));
    this.#finish();
  }

  isBlocked(): boolean {
    return !this.#isOver && this.#outlet.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#outlet.onUnblocked(callback);
  }

  /** Ends the response because the client has left. */
  abandon(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closed.abort();
    this.#onOver(false);
  }

  #finish(): void {
    this.#isOver = true;
    this.#text = '';
    this.#onOver(this.#isGood);
  }

  #tellWhole(): void {
    let from = 0;
    for (let to = this.#text.indexOf('\n\n'); to >= 0; to = this.#text.indexOf('\n\n', from)) {
      this.#tell(this.#text.slice(from, to));
      from = to + 2;
    }
    this.#text = this.#text.slice(from);
  }

  /** Sends the data of one frame. Comments and annotations have no data, and are dropped. */
  #tell(frame: string): void {
    const at = frame.startsWith('data: ') ? 0 : frame.indexOf('\ndata: ') + 1;
    if (at === 0 && !frame.startsWith('data: ')) return;
    const data = frame.slice(at + 'data: '.length);
    if (data === '[DONE]') return;
    if (data.startsWith(FAILURE)) {
      this.#isGood = false;
      this.#outlet.send(errorEvent(500, JSON.parse(data)));
      return;
    }
    if (GOOD_END.test(data)) this.#isGood = true;
    this.#outlet.send(this.#isFirst ? this.#withWarning(data) : data);
    this.#isFirst = false;
  }

  /** Adds to the first event what was left out of the request, because a connection has no headers of a response. */
  #withWarning(event: string): string {
    const { warning } = this.#headers;
    return warning === undefined ? event : `${event.slice(0, -1)},"headers":${JSON.stringify({ warning })}}`;
  }

  #refuse(text: string): void {
    const headers = Object.fromEntries(Object.entries(this.#headers).filter(([name]) => TOLD.test(name)));
    this.#outlet.send(errorEvent(this.#status, JSON.parse(text), headers));
  }
}
