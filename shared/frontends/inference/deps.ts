import type { Gate, Grant, RequestNames } from '../../access/index.ts';
import type { Clock, Random } from '../../clock/index.ts';
import type { RequestLog } from '../../console/index.ts';
import { LIMITS, overLimit, type ServeError } from '../../errors/index.ts';
import type { Pipeline } from '../../pipeline/index.ts';
import type { Endpoint, OpenAiDecodeSettings, Usage } from '../../protocol/index.ts';
import type { FrontendMetrics, Logger, RequestRecorder, SpanAttributes, Tracer } from '../../telemetry/index.ts';
import type { ServiceLifecycle } from './lifecycle.ts';

/** Dependencies of serving inference, whatever the transport. */
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
    /**
     * How far the answer to one owner hides the prompts of other owners (`STATOR_CACHE_ISOLATION`). @default 'figures'
     */
    readonly cacheIsolation?: 'figures' | 'blocks' | 'off' | undefined;
  };
  /** Room for the answers that all requests of the process keep until they are whole. */
  readonly answers: ByteBudget;
  /** Checks API keys; undefined = no client needs one. */
  readonly gate?: Gate | undefined;
  /** Makes the names by which other edges find running requests; undefined = each edge knows only its own requests. */
  readonly names?: RequestNames | undefined;
  /** Records every request; undefined = requests are not recorded. */
  readonly records?: Pick<RequestRecorder, 'requestEnded'> | undefined;
  /** Makes spans of every inference request; undefined = no spans are made. */
  readonly tracer?: Tracer | undefined;
  readonly lifecycle: ServiceLifecycle;
  /** Called with the tracker of each request when it begins. @default nothing is called */
  readonly onTracked?: ((request: TrackedRequest) => void) | undefined;
  /** Shows every request to operators; undefined = there is no console. */
  readonly watched?: Pick<RequestLog, 'began'> | undefined;
  /**
   * Makes the model of that name, or every model, known to a pipeline that knows only the models that requests have
   * named. Returns undefined if it is known already. Rejects with a ServeError if discovery cannot be read. Absent =
   * the pipeline knows all models.
   */
  readonly lookUp?: ((name: string | undefined) => Promise<void> | undefined) | undefined;
}

/** A request whose answer another process sends. */
export interface TrackedRequest {
  /** Ends the request as a success, and writes nothing. @param usage undefined if it is unknown */
  answeredElsewhere(usage: Usage | undefined): void;
  /** Ends the request as a failure, and writes nothing. @param status the status that the client got */
  failedElsewhere(error: ServeError, status: number): void;
}

/** Hears when a response no longer has a use. */
export interface ExchangeListener {
  /** The client has left. */
  left(): void;
  /** The time of the request is over, and its client is still there. */
  late(): void;
}

/** One request and the place for its response, as far as the request tracker knows their transport. */
export interface TrackedExchange {
  /**
   * Id by which the client may name this request: its own `x-request-id`, or a generated one. Every response carries
   * it.
   */
  readonly requestId: string;
  /** The request id if it was generated here, so that it names no other request. */
  readonly madeRequestId: string | undefined;
  /** Rights that the client was let in with. */
  readonly grant: Grant;
  /** Lower-case names of header lines or metadata entries, each once. */
  headerNames(): readonly string[];
  /** Returns the value of the first entry with that lower-case name. */
  header(name: string): string | undefined;
  readonly sink: {
    /** Aborts when the client has left. */
    readonly closed: AbortSignal;
    isBlocked(): boolean;
    onUnblocked(callback: () => void): void;
  };
  /** Aborts with a `ServeError` when the host is about to stop the request. */
  readonly deadline?: AbortSignal;
  /**
   * Calls `listener` in place of the signals, and at once if the event has happened already. Returns a function that
   * ends this.
   * @default the request tracker listens to the signals
   */
  watch?(listener: ExchangeListener): () => void;
  /** Notes that the request fails with `error`, and counts once a limit that it exceeded. */
  failed(error: ServeError): void;
  readonly transport: TransportNames;
  /** Returns the name of the request's span, and attributes that say where the request went. */
  spanStart(): { readonly name: string; readonly attributes: SpanAttributes };
  /** Returns the attributes of the span for the response. @param status its number */
  spanEnd(status: number): SpanAttributes;
  /**
   * Returns whether the server is at fault, and not the client's request. @param status the status of the failure's
   * response
   */
  isOurFault(error: ServeError, status: number): boolean;
}

/** Status numbers of a transport. */
export interface TransportNames {
  /** Status of a successful response. */
  readonly okStatus: number;
  /** Status in logs and metrics for a client that left. */
  readonly goneStatus: number;
  /** Labels of the counter of cancelled requests that differ from the endpoint's own. */
  readonly cancelledEndpoints?: Partial<Readonly<Record<Endpoint, string>>>;
}

/** Sentences of the error for a client that finds no room, by the kind of room. */
const WORDS = {
  bodies_bytes: 'The request bodies that are being read fill the room for them',
  answers_bytes: 'The answers that are being put together fill the room for them',
} as const;

/**
 * Room in bytes for what all requests in flight hold in memory. Each request has a limit of its own, but enough of them
 * at once would end the process. The error for a client that finds no room says to try again.
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

  /** Takes room. @throws ServeError `server_overloaded` if there is no room for that many bytes more */
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

/**
 * Printable characters of Latin-1, as a header can carry. Longer texts are refused, because every log line would repeat
 * them.
 */
const REQUEST_ID = /^[\x21-\x7e\xa1-\xff](?:[\x20-\x7e\xa0-\xff]{0,510}[\x21-\x7e\xa1-\xff])?$/;

/** Returns the client's own id of a request if it is valid: at most 512 printable characters. */
export function clientRequestId(header: string | undefined): string | undefined {
  return header !== undefined && REQUEST_ID.test(header) ? header : undefined;
}

/**
 * Returns the `x-request-id` of a response: the client's own id, or a new one. @param header the request's
 * `x-request-id`
 */
export function requestIdOf(header: string | undefined, random: Pick<Random, 'uuid'>): string {
  return clientRequestId(header) ?? random.uuid();
}
