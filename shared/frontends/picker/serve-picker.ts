import type { Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { type GrpcTls, openGrpcServer } from '../../grpc/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { messageRoom } from '../grpc/message-room.ts';
import { httpSettings } from '../http/settings.ts';
import type { Frontend } from '../process/frontend.ts';
import { createPickerMetrics } from './deps.ts';
import { Endpoints } from './endpoints.ts';
import { createSelfSigned } from './self-signed.ts';
import { SentRequests } from './sent-requests.ts';
import { createPickerService } from './service.ts';

/** Bytes of a message beside the body in it. */
const AROUND_BODY_BYTES = 64 * 1024;
/** Host name in the certificate that the process makes. */
const CERTIFICATE_NAME = 'stator-endpoint-picker';

/** A listening endpoint picker. */
export interface PickerServer {
  readonly address: string;
  useCertificate(renewed: GrpcTls): void;
  /** Reports NOT_SERVING, accepts no new connections, and cuts the remaining calls after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/**
 * Serves Envoy's external processing, by which gateways ask where to send a request.
 * @param tls certificate of the process. If it is undefined, the picker makes one, unless the settings turn TLS off
 * @throws Error with one line that names the flag to change if the port cannot be bound
 */
export async function servePicker(
  frontend: Frontend,
  settings: Settings<'frontend' | 'local'>,
  port: number,
  tls: GrpcTls | undefined,
  logger: Logger,
): Promise<PickerServer> {
  const { inference, lifecycle, models, metrics, bodies } = frontend;
  const { clock, random } = inference;
  const host = settings.httpHost ?? '0.0.0.0';
  const deps = {
    app: frontend.app,
    pipeline: inference.pipeline,
    placer: frontend.placer,
    models,
    settings: httpSettings(settings),
    responseStore: frontend.responseStore,
    bodies,
    endpoints: new Endpoints(settings.endpointPickerTargetPort),
    fallbacks: settings.endpointPickerFallbacks,
    sent: new SentRequests(),
    clock,
    silenceMsMax: settings.endpointPickerSilenceSecs * 1000,
    random,
    logger,
    metrics: createPickerMetrics(metrics.registry),
  };
  const { methods, health } = createPickerService(deps, () => lifecycle.stage === 'ready');
  const isSecure = settings.endpointPickerSecureServing;
  const opening = openGrpcServer({
    host,
    port,
    methods,
    clock,
    random,
    tls: tls ?? (isSecure ? createSelfSigned(CERTIFICATE_NAME, clock.wallMs()) : undefined),
    messageBytesMax: settings.httpBodyLimitMb * 1024 * 1024 + AROUND_BODY_BYTES,
    room: messageRoom(bodies, metrics.limitReached),
    onLimit: metrics.limitReached,
    connectionsMax: settings.grpcMaxConnections,
    concurrentStreamsMax: settings.grpcMaxConcurrentStreams,
    keepaliveMs: settings.grpcKeepaliveTimeMs,
    keepaliveTimeoutMs: settings.grpcKeepaliveTimeoutMs,
  });
  const server = await opening.catch((cause: unknown) => {
    throw new Error(`cannot serve gateways on ${host}:${port} (--endpoint-picker-port): ${reasonOf(cause)}`, { cause });
  });
  const changed = (): void => health.changed();
  const unfollow = [models.follow(changed), lifecycle.follow(changed)];
  const end = async (graceMs: number): Promise<void> => {
    for (const each of unfollow) each();
    health.shutDown();
    await server.close(graceMs);
  };
  let closed: Promise<void> | undefined;
  return {
    address: `${host.includes(':') ? `[${host}]` : host}:${server.port}`,
    useCertificate: (renewed) => server.useCertificate(renewed),
    close: (graceMs) => {
      closed ??= end(graceMs);
      return closed;
    },
  };
}
