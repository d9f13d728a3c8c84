import type { Gate, Grant, RequestNames } from '../../access/index.ts';
import type { Clock, Random } from '../../clock/index.ts';
import type { ServeError } from '../../errors/index.ts';
import type { Pipeline } from '../../pipeline/index.ts';
import type { Endpoint } from '../../protocol/generation/index.ts';
import type { OpenAiDecodeSettings } from '../../protocol/openai/index.ts';
import type { FrontendMetrics, Logger, RequestRecorder, Tracer } from '../../telemetry/index.ts';
import type { ByteBudget } from './byte-budget.ts';
import type { ServiceLifecycle } from './lifecycle.ts';

/** What serving inference takes, whatever the transport. */
export interface InferenceDeps {
  readonly pipeline: Pipeline;
  readonly metrics: Pick<FrontendMetrics, 'startRequest' | 'rejected' | 'cancelled' | 'disconnected' | 'failed'>;
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
}

/** Hears that nobody waits for a response any more. */
export interface ExchangeListener {
  /** Nobody reads it any more. */
  left(): void;
  /** Its time is over, and its reader is still there. */
  late(): void;
}

/** One request and the place for its response, as far as its books know its transport. */
export interface BookedExchange {
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
  /** What its span says of where it went. */
  spanAttributes(): Readonly<Record<string, string>>;
}

/** How a transport is named in logs and spans, and its numbers. */
export interface TransportNames {
  readonly spanName: string;
  /** Attribute of the span that has the number of the response. */
  readonly statusAttribute: string;
  /** Number of a response that was given. */
  readonly okStatus: number;
  /** Number that stands for a client that left. */
  readonly goneStatus: number;
  /** Labels of the counter of cancelled requests that differ from the endpoint's own. */
  readonly cancelledEndpoints?: Partial<Readonly<Record<Endpoint, string>>>;
}
