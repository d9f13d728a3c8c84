import { type Random, systemRandom } from '../../../clock/index.ts';
import type { NatsClient } from '../../nats/index.ts';
import { ClientCall } from '../client-call.ts';
import { ConnectionPool } from '../frames/pool.ts';
import { type ConnectionOptions, withDefaults } from '../frames/settings.ts';
import type { Call, CallSink, PlaneRequest, PlaneServer, RequestPlane, ServeOptions, Transport } from '../types.ts';
import { CallerChannels } from './caller.ts';
import { NatsPlaneServer } from './server.ts';
import { readNatsTarget } from './subject.ts';

const REQUEST_TIMEOUT_MS = 10_000;

/** Settings of the NATS plane: those of its channels, and a connection. */
export interface NatsRequestPlaneOptions extends Omit<ConnectionOptions, 'requestTimeoutMs'> {
  /** The plane's own connection; closed with it. */
  readonly client: NatsClient;
  /** @default systemRandom */
  readonly random?: Random;
  /** Deadline of PROLOGUE after OPEN (`DYN_NATS_REQUEST_TIMEOUT_SECS`). @default 10000 */
  readonly requestTimeoutMs?: number;
}

/**
 * The NATS request plane: the frames of the TCP plane over channels of messages, so
 * that both are one protocol: credit, heartbeats, draining, and one TOKENS frame for all streams of an engine step. For
 * fleets whose workers cannot be dialled. NATS delivers at most once: a message that is lost, here or with the server, ends
 * the streams of its channel with `Disconnected`, and they are retried as after any lost connection.
 *
 * @example
 * const plane = createNatsRequestPlane({ clock: systemClock, client: createNatsClient({ ... }) });
 */
export function createNatsRequestPlane(options: NatsRequestPlaneOptions): RequestPlane {
  const { client, random = systemRandom, ...rest } = options;
  const settings = withDefaults({ requestTimeoutMs: REQUEST_TIMEOUT_MS, ...rest });
  const { clock, observer } = settings;
  const pool = new ConnectionPool(settings, new CallerChannels(client, random).dial);
  return {
    name: 'nats',
    /** Waits for the server, however long it takes: a worker that nobody can reach has nothing to announce. */
    async serve(serveOptions: ServeOptions): Promise<PlaneServer> {
      await client.connected(serveOptions.signal ?? new AbortController().signal); // ends also when the plane is closed
      return new NatsPlaneServer({ client, settings, random, ...serveOptions });
    },
    call(transport: Transport, request: PlaneRequest, sink: CallSink): Call {
      const call = new ClientCall({ sink, clock, observer, deadlineMs: request.deadlineMs });
      call.guard(() => pool.open({ call, target: readNatsTarget(transport), request }));
      return call;
    },
    async close() {
      pool.close();
      await client.close();
    },
  };
}
