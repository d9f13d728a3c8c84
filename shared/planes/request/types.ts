import type { CallerSettings, FleetSettings } from '../../config/index.ts';
import type { OutputSink } from '../../protocol/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { ConnectionOptions } from './frames/settings.ts';

/** How an endpoint is reached, as its discovery record says: one entry, a kind of plane with its address there. `{ tcp: "host:port/{instance}/{ns}/{component}/{endpoint}" }`. */
export type Transport = Readonly<Record<string, string>>;

/** One request to one endpoint instance. */
export interface PlaneRequest {
  /** Request id; unique among the streams of the caller. */
  readonly id: string;
  /** Trace context, client request id, metadata. */
  readonly headers: Readonly<Record<string, string>>;
  /** Time left for the whole request; the worker ends it then. Absent = no deadline. */
  readonly deadlineMs?: number;
  /** Any JSON value, and byte strings; crosses as msgpack. Large byte strings are not copied: nobody writes to them again. */
  readonly body: unknown;
  /** Prompt token ids; cross as raw u32. */
  readonly tokenIds?: Uint32Array | undefined;
}

/** What the caller implements. `accepted` comes first and once, unless the call fails before it. */
export interface CallSink extends OutputSink {
  accepted(): void;
  /**
   * The worker would have another one go on, as it is about to end. The stream goes on here until the caller kills it, and may be
   * asked about again. @default the stream stays
   */
  moveAsked?(): void;
}

/** A request under way, seen from the caller. All methods are idempotent and do nothing once the stream is closed. */
export interface Call {
  /** Ask the engine to finish soon; what it has made still arrives, then `end`. */
  stop(): void;
  /** Drop the request now. The sink is not called again. @param why another worker goes on; else nobody wants the answer */
  kill(why?: 'moved'): void;
  /** Stop granting credit: the worker sends what it was already allowed (at most the credit window) and then waits. */
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
  /** The caller has killed it because another worker goes on. */
  readonly wasMoved: boolean;
  /** Whether who sent it here can be asked by `askToMove`: a caller, or a router of an earlier release that hands on for one, cannot. */
  readonly hearsMoves: boolean;
  /** Tells the caller, past whatever waits for credit, that another worker had better go on. Nothing where that cannot be heard. */
  askToMove(): void;
  /** Sends the prologue: the request was taken on. Implied by the first `tokens`, `output` or `end`. */
  accept(): void;
  /** True while the caller has granted no credit: an engine that can wait should. Output is kept meanwhile. */
  isBlocked(): boolean;
  /** Runs `callback` once when credit returns or the stream closes. */
  onUnblocked(callback: () => void): void;
}

/** Takes on one request. A throw or rejection fails the stream; returning does not end it. */
export type PlaneHandler = (call: IncomingCall) => void | Promise<void>;

/** The serving side of a plane in one process. */
export interface PlaneServer {
  /** Serves `endpoint` (`{instance}/{ns}/{component}/{endpoint}`) and returns how callers reach it. */
  handle(endpoint: string, handler: PlaneHandler): Transport;
  /** Resolves when callers reach every endpoint that is served by now: before that nobody should be told of one. Rejects at `signal`. */
  reachable(signal: AbortSignal): Promise<void>;
  /** Refuses new requests on `endpoint` with `WorkerUnavailable`. Streams under way go on. */
  unhandle(endpoint: string): void;
  /** Sends GOAWAY on every connection and refuses new requests; streams under way go on. */
  drain(): void;
  /** Where all of its endpoints are reached, `host:port`; undefined where each has an address of its own. */
  readonly place?: string;
  /** Streams now open. */
  readonly activeStreams: number;
  /** Closes the listener and every connection; open streams are aborted. */
  close(): Promise<void>;
}

/** Carries requests to workers and their output back. */
export interface RequestPlane {
  /** Its name in `--request-plane`. */
  readonly name: string;
  /**
   * A broker carries its calls, which may come later than this process.
   * @default it listens on this machine, and what keeps it from that shows at once
   */
  readonly hasBroker?: boolean;
  /** Starts listening. */
  serve(options: ServeOptions): Promise<PlaneServer>;
  /**
   * Sends `request` to the instance behind `transport`. Never throws: what goes wrong reaches `sink.fail` as a `ServeError`
   * with a worker kind (`CannotConnect`, `ConnectionTimeout`, `Disconnected`, ...), on a later turn.
   */
  call(transport: Transport, request: PlaneRequest, sink: CallSink): Call;
  /**
   * How another endpoint of the same component and instance is reached; undefined for what is no transport of this plane.
   * Whether something serves it shows when it is called.
   *
   * @param endpoint letters, digits and underscores
   * @example plane.sibling({ tcp: '10.0.0.1:8800/2a/ns/backend/generate' }, 'quote') // { tcp: '10.0.0.1:8800/2a/ns/backend/quote' }
   */
  sibling(transport: Transport, endpoint: string): Transport | undefined;
  /** How `endpoint` is reached at `host:port`. Absent = only its discovery record says how. */
  readonly at?: (place: string, endpoint: string) => Transport;
  /** A broker that the plane needs and cannot reach, with the reason, for operators; undefined while nothing is missing. */
  absence?(): string | undefined;
  /** Closes pooled connections; open calls fail with `Disconnected`. */
  close(): Promise<void>;
}

export interface ServeOptions {
  /** Instance id (hex) told to callers in HELLO_ACK. */
  readonly instanceId: string;
  /** Ends the waiting for a broker. */
  readonly signal?: AbortSignal;
}

/** What is the same for every plane that a process opens. */
export interface OpenPlaneOptions extends ConnectionOptions {
  /** Told of outages. */
  readonly logger?: Logger | undefined;
  /** Attempts to reach a broker before requests fail. @default no limit */
  readonly brokerAttemptsMax?: number;
}

/** How a process opens a plane as its settings say. Throws one line for an operator where they cannot be followed. */
export interface RequestPlaneKind {
  /** For a process that only calls. */
  openCalling(settings: CallerSettings, options: OpenPlaneOptions): RequestPlane;
  /** For one that serves. */
  openServing(settings: FleetSettings, options: OpenPlaneOptions): RequestPlane;
}
