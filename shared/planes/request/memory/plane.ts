import type { Clock } from '../../../clock/index.ts';
import { workerError } from '../../../errors/index.ts';
import { ClientCall } from '../client-call.ts';
import { type RequestPlaneObserver, silentObserver } from '../observer.ts';
import type { Call, CallSink, PlaneHandler, PlaneRequest, PlaneServer, RequestPlane, Transport } from '../types.ts';
import { MemoryStream } from './stream.ts';

export interface MemoryRequestPlaneOptions {
  readonly clock: Clock;
  /** Deadline of the acceptance. @default 5000 */
  readonly requestTimeoutMs?: number;
  readonly observer?: RequestPlaneObserver;
}

/** One server of the plane: its endpoints and the streams under way on them. */
interface MemoryServer {
  readonly handlers: Map<string, PlaneHandler>;
  readonly streams: Set<MemoryStream>;
  isDraining: boolean;
}

/**
 * A request plane inside one process, with the semantics of the others: every message arrives on a later turn, records are
 * copied, credit, deadlines and draining apply. Callers and servers meet through the same plane object.
 */
export function createMemoryRequestPlane(options: MemoryRequestPlaneOptions): RequestPlane {
  const { clock, requestTimeoutMs = 5000, observer = silentObserver } = options;
  const serverOf = new Map<string, MemoryServer>();
  const openStreams = new Set<MemoryStream>();

  function connect(transport: Transport, request: PlaneRequest, call: ClientCall): void {
    if (!('memory' in transport))
      throw workerError('CannotConnect', `not a memory transport: ${Object.keys(transport)}`);
    const server = serverOf.get(transport.memory);
    const handler = server?.handlers.get(transport.memory);
    if (server === undefined) throw workerError('CannotConnect', `nothing serves ${transport.memory}`);
    if (handler === undefined || server.isDraining) {
      throw workerError('WorkerUnavailable', `Server unavailable: ${transport.memory}`);
    }
    const stream = new MemoryStream(call, clock, observer, () => {
      server.streams.delete(stream);
      openStreams.delete(stream);
    });
    stream.open(transport.memory, request, handler);
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
    unhandle: (endpoint) => void server.handlers.delete(endpoint), // known still, so that callers read WorkerUnavailable
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
