import type { CallerSettings, FleetSettings } from '../../config/index.ts';
import type { OutputSink } from '../../protocol/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { ConnectionOptions } from './frames/settings.ts';

/**
 * Address of an endpoint, as in its discovery record: one entry, with a kind of plane and the address there. `{ tcp:
 * "host:port/{instance}/{ns}/{component}/{endpoint}" }`. Addresses of Dynamo's workers may have a second entry,
 * `dynamo_codec`, with the codec of their payloads.
 */
export type Transport = Readonly<Record<string, string>>;

/** One request to one endpoint instance. */
export interface PlaneRequest {
  /** Request id; unique among the streams of the caller. */
  readonly id: string;
  /** Trace context, client request id, metadata. */
  readonly headers: Readonly<Record<string, string>>;
  /** Time left for the whole request; the worker then ends it. Absent = no deadline. */
  readonly deadlineMs?: number;
  /**
   * Any JSON value, and byte strings; travels as msgpack. Large byte strings are not copied, because they are never
   * written again.
   */
  readonly body: unknown;
  /** Prompt token ids; travel as raw u32. */
  readonly tokenIds?: Uint32Array | undefined;
  /**
   * Whether the body goes to the endpoint as it is, and each item of the answer comes back as the `body` of an output.
   * Only Dynamo's plane reads it, which otherwise translates requests and answers of generation. @default false
   */
  readonly isVerbatim?: boolean;
}

/** Callbacks of the caller. `accepted` comes first and once, unless the call fails before it. */
export interface CallSink extends OutputSink {
  accepted(): void;
  /**
   * Called if the worker is about to end and asks that another worker continues. The stream continues here until the
   * caller kills it, and the worker may ask again. @default the stream stays
   */
  moveAsked?(): void;
}

/** A request under way, seen from the caller. All methods are idempotent and do nothing once the stream is closed. */
export interface Call {
  /** Asks the engine to finish soon. Output made so far still arrives, then `end`. */
  stop(): void;
  /**
   * Drops the request now. The sink is not called again. @param why another worker continues; otherwise no client wants
   * the answer
   */
  kill(why?: 'moved'): void;
  /** Stops granting credit. The worker sends what it was already allowed (at most the credit window) and then waits. */
  pause(): void;
  resume(): void;
}

/** A request under way, seen from the worker. It is the sink that the engine writes to. */
export interface IncomingCall extends OutputSink {
  readonly id: string;
  /** Endpoint path as registered with `PlaneServer.handle`. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly deadlineMs: number | undefined;
  readonly body: unknown;
  readonly tokenIds: Uint32Array | undefined;
  /** Aborts on KILL, on a lost connection and at the deadline. Its reason is a `ServeError`. */
  readonly signal: AbortSignal;
  /** Aborts on STOP (and on everything that aborts `signal`). */
  readonly stopped: AbortSignal;
  /** Whether `stopped` has aborted; costs no signal. */
  readonly isStopped: boolean;
  /** Whether the caller has killed it because another worker continues. */
  readonly wasMoved: boolean;
  /**
   * Whether the sender of the request understands `askToMove`. Some callers do not, nor do routers of an earlier
   * release that pass requests on.
   */
  readonly hearsMoves: boolean;
  /**
   * Asks the caller to let another worker continue. This overtakes everything that waits for credit. It has no effect
   * if the caller does not know MOVE.
   */
  askToMove(): void;
  /** Sends the prologue: the request was accepted. Implied by the first `tokens`, `output` or `end`. */
  accept(): void;
  /** Whether the caller has granted no credit. An engine that can wait should then wait; output is kept meanwhile. */
  isBlocked(): boolean;
  /** Runs `callback` once when credit returns or the stream closes. */
  onUnblocked(callback: () => void): void;
}

/** Handles one request. An error or rejection fails the stream; returning does not end it. */
export type PlaneHandler = (call: IncomingCall) => void | Promise<void>;

/** The serving side of a plane in one process. */
export interface PlaneServer {
  /** Serves `endpoint` (`{instance}/{ns}/{component}/{endpoint}`) and returns its address for callers. */
  handle(endpoint: string, handler: PlaneHandler): Transport;
  /**
   * Resolves when callers can reach every endpoint served so far. No endpoint should be announced before that. Rejects
   * with the signal's reason.
   */
  reachable(signal: AbortSignal): Promise<void>;
  /** Refuses new requests on `endpoint` with `WorkerUnavailable`. Streams under way continue. */
  unhandle(endpoint: string): void;
  /** Sends GOAWAY on every connection and refuses new requests; streams under way continue. */
  drain(): void;
  /** Address of all its endpoints, `host:port`; undefined if each has an address of its own. */
  readonly place?: string;
  /** Number of open streams. */
  readonly activeStreams: number;
  /** Closes the listener and every connection; open streams are aborted. */
  close(): Promise<void>;
}

/** Carries requests to workers and their output back. */
export interface RequestPlane {
  /** Its name in `--request-plane`. */
  readonly name: string;
  /**
   * Whether a broker carries its calls, which may start later than this process.
   * @default no: it listens on this machine, and a failure shows at once
   */
  readonly hasBroker?: boolean;
  /** Starts listening. */
  serve(options: ServeOptions): Promise<PlaneServer>;
  /**
   * Sends `request` to the instance behind `transport`. Never throws: a failure reaches `sink.fail` as a `ServeError`
   * with a worker kind (`CannotConnect`, `ConnectionTimeout`, `Disconnected`, ...), on a later turn.
   */
  call(transport: Transport, request: PlaneRequest, sink: CallSink): Call;
  /**
   * Returns the address of another endpoint of the same component and instance; undefined for a transport of another
   * plane. Only a call shows whether the endpoint is served.
   *
   * @param endpoint letters, digits and underscores
   * @example plane.sibling({ tcp: '10.0.0.1:8800/2a/ns/backend/generate' }, 'quote') // { tcp:
   * '10.0.0.1:8800/2a/ns/backend/quote' }
   */
  sibling(transport: Transport, endpoint: string): Transport | undefined;
  /** Returns the address of `endpoint` at `host:port`. Absent = only its discovery record has it. */
  readonly at?: (place: string, endpoint: string) => Transport;
  /** Broker that the plane needs and cannot reach, with the reason, for operators; undefined if it reaches all. */
  absence?(): string | undefined;
  /** Closes pooled connections; open calls fail with `Disconnected`. */
  close(): Promise<void>;
}

export interface ServeOptions {
  /** Instance id (hex) that HELLO_ACK tells callers. */
  readonly instanceId: string;
  /** Ends the wait for a broker. */
  readonly signal?: AbortSignal;
}

/** Options that are the same for every plane that a process opens. */
export interface OpenPlaneOptions extends ConnectionOptions {
  /** Called with outages. */
  readonly logger?: Logger | undefined;
}

/** Opens a plane by the settings of a process. Throws one line for an operator if they cannot be followed. */
export interface RequestPlaneKind {
  /** Opens it for a process that only calls. */
  openCalling(settings: CallerSettings, options: OpenPlaneOptions): RequestPlane;
  /** Opens it for a process that serves. */
  openServing(settings: FleetSettings, options: OpenPlaneOptions): RequestPlane;
}
