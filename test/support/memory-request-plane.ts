import type { Clock } from '../../shared/clock/index.ts';
import { type WireError, workerError } from '../../shared/errors/index.ts';
import { decodeRecord, encodeRecord, type RecordPieces } from '../../shared/planes/record-codec.ts';
import { type CallerWire, ClientCall } from '../../shared/planes/request/client-call.ts';
import { type RequestPlaneObserver, silentObserver } from '../../shared/planes/request/observer.ts';
import { type AnswerWire, ServerCall } from '../../shared/planes/request/server-call.ts';
import type {
  Call,
  CallSink,
  PlaneHandler,
  PlaneRequest,
  PlaneServer,
  RequestPlane,
  Transport,
} from '../../shared/planes/request/types.ts';
import type { EngineOutput } from '../../shared/protocol/index.ts';

export interface MemoryRequestPlaneOptions {
  readonly clock: Clock;
  /** Deadline for the acceptance of a request. @default 5000 */
  readonly requestTimeoutMs?: number;
  readonly observer?: RequestPlaneObserver;
  /** Whether callers know of moves. @default true */
  readonly hearsMoves?: boolean;
}

/** A server of the plane, with its endpoints and their open streams. */
interface MemoryServer {
  readonly handlers: Map<string, PlaneHandler>;
  readonly streams: Set<MemoryStream>;
  isDraining: boolean;
}

/**
 * Creates a request plane inside one process, with the semantics of the others. Every message arrives on a later turn,
 * records are copied, and credit, deadlines and draining apply. Callers and servers must use the same plane object.
 */
export function createMemoryRequestPlane(options: MemoryRequestPlaneOptions): RequestPlane {
  const { clock, requestTimeoutMs = 5000, observer = silentObserver, hearsMoves = true } = options;
  const serverOf = new Map<string, MemoryServer>();
  const openStreams = new Set<MemoryStream>();

  function connect(transport: Transport, request: PlaneRequest, call: ClientCall): void {
    const { memory: endpoint } = transport;
    if (endpoint === undefined) throw workerError('CannotConnect', `not a memory transport: ${Object.keys(transport)}`);
    const server = serverOf.get(endpoint);
    const handler = server?.handlers.get(endpoint);
    if (server === undefined) throw workerError('CannotConnect', `nothing serves ${endpoint}`);
    if (handler === undefined || server.isDraining) {
      throw workerError('WorkerUnavailable', `Server unavailable: ${endpoint}`);
    }
    const stream = new MemoryStream(call, clock, observer, () => {
      server.streams.delete(stream);
      openStreams.delete(stream);
    });
    stream.hearsMoves = hearsMoves;
    stream.open(endpoint, request, handler);
    server.streams.add(stream);
    openStreams.add(stream);
    call.attach(stream, 0);
    call.sent(requestTimeoutMs);
  }

  return {
    name: 'memory',
    serve: async () => serveInMemory(serverOf),
    call(transport: Transport, request: PlaneRequest, sink: CallSink): Call {
      const call = new ClientCall({ sink, clock, observer, deadlineMs: request.deadlineMs });
      call.guard(() => connect(transport, request, call));
      return call;
    },
    sibling: ({ memory = '' }: Transport, endpoint: string): Transport => ({
      memory: memory.replace(/[^/]+$/, endpoint),
    }),
    async close() {
      for (const stream of [...openStreams]) stream.lose('the plane was closed');
    },
  };
}

function serveInMemory(serverOf: Map<string, MemoryServer>): PlaneServer {
  const server: MemoryServer = { handlers: new Map(), streams: new Set(), isDraining: false };
  return {
    handle(endpoint, handler) {
      server.handlers.set(endpoint, handler);
      serverOf.set(endpoint, server);
      return { memory: endpoint };
    },
    reachable: () => Promise.resolve(),
    // stays registered, so that callers get WorkerUnavailable
    unhandle: (endpoint) => void server.handlers.delete(endpoint),
    drain() {
      server.isDraining = true;
    },
    get activeStreams() {
      return server.streams.size;
    },
    async close() {
      for (const [endpoint, owner] of serverOf) if (owner === server) serverOf.delete(endpoint);
      for (const stream of [...server.streams]) stream.lose('the server was closed');
    },
  };
}

/** One stream of the memory plane. Both directions are queues whose messages arrive on a later turn, in order. */
class MemoryStream implements CallerWire, AnswerWire {
  readonly #caller: ClientCall;
  readonly #clock: Clock;
  readonly #observer: RequestPlaneObserver;
  readonly #onOver: () => void;
  hearsMoves = true;
  #worker: ServerCall | undefined;
  #isOver = false;

  constructor(caller: ClientCall, clock: Clock, observer: RequestPlaneObserver, onOver: () => void) {
    this.#caller = caller;
    this.#clock = clock;
    this.#observer = observer;
    this.#onOver = onOver;
  }

  /** Copies the request and passes it to `handler` on a later turn. */
  open(endpoint: string, request: PlaneRequest, handler: PlaneHandler): void {
    const record = { id: request.id, headers: request.headers, body: request.body };
    const bytes = encodeRecord(record);
    const tokenIds = request.tokenIds?.slice();
    queueMicrotask(() => {
      if (this.#caller.isClosed) this.#over();
      if (this.#isOver) return;
      const copy = decode(bytes) as typeof record; // the record was just encoded
      this.#worker = new ServerCall({
        wire: this,
        streamId: 0,
        request: { ...copy, endpoint, deadlineMs: request.deadlineMs, tokenIds },
        clock: this.#clock,
        observer: this.#observer,
      });
      this.#worker.run(handler);
    });
  }

  /** Breaks the connection between the two sides. */
  lose(reason: string): void {
    const error = workerError('Disconnected', reason);
    this.#worker?.abort(error);
    this.#caller.failLater(error);
    this.#over();
  }

  stop(): void {
    queueMicrotask(() => this.#worker?.stop());
  }

  kill(_streamId: number, isMoved: boolean): void {
    queueMicrotask(() => this.#worker?.abort(workerError('Cancelled', 'killed by the caller'), isMoved));
  }

  credit(_streamId: number, amount: number): void {
    queueMicrotask(() => this.#worker?.grant(amount));
  }

  accept(): void {
    this.#deliver(() => this.#caller.accept());
  }

  askToMove(): void {
    this.#deliver(() => this.#caller.moveAsked());
  }

  tokens(_streamId: number, choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    const copy = Uint32Array.from({ length: count }, (_, at) => ids[start + at] ?? 0);
    this.#deliver(() => this.#caller.tokens(choice, copy, 0, count));
  }

  encodeItem(output: EngineOutput): RecordPieces {
    return [encodeRecord(output)];
  }

  item(_streamId: number, record: RecordPieces): void {
    this.#deliver(() => this.#caller.item(decode(Buffer.concat(record))));
  }

  end(): void {
    this.#deliver(() => this.#caller.end());
  }

  fail(_streamId: number, error: WireError): void {
    this.#deliver(() => this.#caller.failRemote(error));
  }

  isBlocked(): boolean {
    return false;
  }

  /** Ends one of the two sides. The stream counts until the worker's side has ended. */
  release(): void {
    if (this.#worker?.isClosed) this.#over();
  }

  #deliver(message: () => void): void {
    queueMicrotask(() => {
      try {
        message();
      } catch (thrown) {
        this.#caller.sinkThrew(thrown);
      }
    });
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onOver();
  }
}

function decode(record: Uint8Array): unknown {
  return decodeRecord(Buffer.from(record.buffer, record.byteOffset, record.length), 0, record.length);
}
