import type { Gate, Grant, RequestNames } from '../../access/index.ts';
import type { Clock, Random } from '../../clock/index.ts';
import { LIMITS, overLimit, type ServeError } from '../../errors/index.ts';
import type { Pipeline } from '../../pipeline/index.ts';
import type { Endpoint, OpenAiDecodeSettings } from '../../protocol/index.ts';
import type { FrontendMetrics, Logger, RequestRecorder, SpanAttributes, Tracer } from '../../telemetry/index.ts';
import type { ServiceLifecycle } from './lifecycle.ts';

/** What serving inference takes, whatever the transport. */
export interface InferenceDeps {
  readonly pipeline: Pipeline;
  readonly metrics: FrontendMetrics;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly random: Random;
  readonly settings: {
    /** `STATOR_HTTP_ANSWER_LIMIT_MB`, in bytes. */
    readonly answerLimitBytes: number;
    readonly decode: OpenAiDecodeSettings;
    /** What the answer to one owner tells of what others sent (`STATOR_CACHE_ISOLATION`). @default 'figures' */
    readonly cacheIsolation?: 'figures' | 'blocks' | 'off' | undefined;
  };
  /** Room for the answers that are kept until they are whole, of all requests of the process. */
  readonly answers: ByteBudget;
  /** Asks for API keys; undefined = nobody needs one. */
  readonly gate?: Gate | undefined;
  /** Makes the names by which other edges find running requests; undefined = each knows its own alone. */
  readonly names?: RequestNames | undefined;
  /** Takes note of every request; undefined = nobody does. */
  readonly records?: Pick<RequestRecorder, 'requestEnded'> | undefined;
  /** Makes a span of every inference request; undefined = none are made. */
  readonly tracer?: Tracer | undefined;
  readonly lifecycle: ServiceLifecycle;
  /**
   * Has the pipeline know the model of that name, or all models, where it knows only those that were asked for; undefined where it does.
   * Rejects with a ServeError when that cannot be found out. Absent = it knows all.
   */
  readonly lookUp?: ((name: string | undefined) => Promise<void> | undefined) | undefined;
}

/** Hears that nobody waits for a response any more. */
export interface ExchangeListener {
  /** Nobody reads it any more. */
  left(): void;
  /** Its time is over, and its reader is still there. */
  late(): void;
}

/** One request and the place for its response, as far as the request tracker knows their transport. */
export interface TrackedExchange {
  /** The id by which the client may name this request: its own `x-request-id`, or one made for it. Every response carries it. */
  readonly requestId: string;
  /** That id where it was made here and therefore names no other request. */
  readonly madeRequestId: string | undefined;
  /** As whom it was let in. */
  readonly grant: Grant;
  /** Lower-case names of header lines or metadata entries, each once. */
  headerNames(): readonly string[];
  /** Value of the first of that lower-case name. */
  header(name: string): string | undefined;
  readonly sink: {
    /** Aborts when nobody reads the response any more. */
    readonly closed: AbortSignal;
    isBlocked(): boolean;
    onUnblocked(callback: () => void): void;
  };
  /** Aborts with a `ServeError` when the host is about to stop the request. */
  readonly deadline?: AbortSignal;
  /** Tells `listener`, at once where that has happened already, in place of the signals. Returns what ends that. @default the signals are heard */
  watch?(listener: ExchangeListener): () => void;
  /** The request fails with `error`, in whatever words: a limit that it went beyond is counted, once. */
  failed(error: ServeError): void;
  readonly transport: TransportNames;
  /** What its span is called, and says of where it went. */
  spanStart(): { readonly name: string; readonly attributes: SpanAttributes };
  /** What its span says of its response. @param status number of it */
  spanEnd(status: number): SpanAttributes;
  /** Whether a failure is one of the server's, and not a refusal of what a client asks for. @param status that it was told with */
  isOurFault(error: ServeError, status: number): boolean;
}

/** Numbers of a transport. */
export interface TransportNames {
  /** Number of a response that was given. */
  readonly okStatus: number;
  /** Number that stands for a client that left. */
  readonly goneStatus: number;
  /** Labels of the counter of cancelled requests that differ from the endpoint's own. */
  readonly cancelledEndpoints?: Partial<Readonly<Record<Endpoint, string>>>;
}

/** What is held, and what a client is told that finds no room. */
const WORDS = {
  bodies_bytes: 'The request bodies that are being read fill the room for them',
  answers_bytes: 'The answers that are being put together fill the room for them',
} as const;

/**
 * Room for what is held of requests under way, in bytes, over all of the process: what each alone may hold, enough of them at
 * once would end the process. Whoever finds no room is told to come back.
 */
export class ByteBudget {
  readonly limitBytes: number;
  readonly #limit: keyof typeof WORDS;
  readonly #onTaken: (bytes: number) => void;
  #takenBytes = 0;

  /** @param onTaken hears how many bytes are taken, after every change */
  constructor(limit: keyof typeof WORDS, limitBytes: number, onTaken: (bytes: number) => void = () => {}) {
    this.#limit = limit;
    this.limitBytes = limitBytes;
    this.#onTaken = onTaken;
  }

  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** @throws ServeError `server_overloaded` when there is no room for so many bytes more. */
  take(bytes: number): void {
    if (this.#takenBytes + bytes > this.limitBytes) {
      throw overLimit(this.#limit, `${WORDS[this.#limit]} (${LIMITS[this.#limit].max}); try again`);
    }
    this.#takenBytes += bytes;
    this.#onTaken(this.#takenBytes);
  }

  /** Gives back what was taken. */
  give(bytes: number): void {
    this.#takenBytes -= bytes;
    this.#onTaken(this.#takenBytes);
  }
}

/** Printable, within Latin-1, which is what a header can carry; longer ones are no ids, and every log line would repeat them. */
const REQUEST_ID = /^[\x21-\x7e\xa1-\xff](?:[\x20-\x7e\xa0-\xff]{0,510}[\x21-\x7e\xa1-\xff])?$/;

/** The client's own id of a request, where it is one: at most 512 printable characters. */
export function clientRequestId(header: string | undefined): string | undefined {
  return header !== undefined && REQUEST_ID.test(header) ? header : undefined;
}

/** What `x-request-id` of a response says: the client's own id, or a new one. @param header the request's `x-request-id` */
export function requestIdOf(header: string | undefined, random: Pick<Random, 'uuid'>): string {
  return clientRequestId(header) ?? random.uuid();
}
