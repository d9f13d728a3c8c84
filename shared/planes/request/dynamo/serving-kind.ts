import type { FleetSettings } from '../../../config/index.ts';
import { workerError } from '../../../errors/index.ts';
import { fleetHost, followCertificates, readPlaneTls } from '../tcp/protection.ts';
import type { PlaneTls } from '../tcp/tls.ts';
import type { Call, CallSink, OpenPlaneOptions, RequestPlane } from '../types.ts';
import type { DynamoPlaneServer } from './server.ts';

/** Longest wait for a caller to take the connection of an answer, in milliseconds, as in Dynamo. */
const DIAL_TIMEOUT_MS = 5000;
const MESSAGE_BYTES_MAX = 32 << 20;

/**
 * Opens the plane of a worker that serves frontends of Dynamo. It calls no one.
 * @throws Error with one line if the settings name certificates that cannot be used
 */
export function openDynamoServing(settings: FleetSettings, options: OpenPlaneOptions): RequestPlane {
  const { clock, observer, frameBytesMax: messageBytesMax = MESSAGE_BYTES_MAX } = options;
  let tls = readPlaneTls(settings);
  const protectedBy = tls?.server?.clientCa === undefined ? undefined : 'mTLS';
  const servers: DynamoPlaneServer[] = [];
  const readAgain = (): PlaneTls | undefined => readPlaneTls(settings);
  const certificates =
    tls &&
    followCertificates(clock, readAgain, tls, (renewed) => {
      tls = renewed;
      for (const server of servers) server.renew(renewed);
    });
  return {
    name: 'tcp',
    async serve() {
      const { DynamoPlaneServer } = await import('./server.ts');
      const { silentObserver } = await import('../observer.ts');
      const server = await DynamoPlaneServer.listen({
        clock,
        observer: observer ?? silentObserver,
        host: fleetHost(settings.tcpRpcHost, settings, protectedBy),
        advertiseHost: settings.tcpRpcAdvertiseHost,
        ports: settings.tcpRpcPort ?? { first: 0, last: 0 },
        tls,
        messageBytesMax,
        dialTimeoutMs: DIAL_TIMEOUT_MS,
        open: settings.planeOpen ?? false,
      });
      servers.push(server);
      if (tls !== undefined) server.renew(tls); // it may have changed while the server began to listen
      return server;
    },
    call: (_transport, _request, sink) => refusedCall(sink),
    sibling: () => undefined,
    async close() {
      certificates?.cancel();
    },
  };
}

function refusedCall(sink: CallSink): Call {
  queueMicrotask(() => sink.fail(workerError('CannotConnect', "a worker for Dynamo's frontends calls no other")));
  return { stop() {}, kill() {}, pause() {}, resume() {} };
}
