import type { Clock } from '../clock/index.ts';
import type { FleetSettings } from '../config/index.ts';
import { type Discovery, discoveredBrokers } from '../discovery/index.ts';
import {
  createNatsEventPlane,
  createZmqEventPlane,
  type EventPlane,
  type EventTransport,
  fixedBrokers,
  fleetHost,
  followEachTransport,
  listenAddress,
  openNats,
  refuseOpenListener,
  type ZmqBrokerSource,
} from '../planes/index.ts';
import type { Logger } from '../telemetry/index.ts';

/**
 * Returns the event plane of a process that follows workers, as `eventPlane` does. It also follows publishers of other
 * transports: workers of Dynamo choose theirs by their own settings.
 */
export function followingEventPlane(
  settings: FleetSettings,
  clock: Clock,
  logger: Logger,
  discovery: Discovery,
): EventPlane {
  const onProblem = (problem: unknown): void => logger.warn('event plane problem', { problem: String(problem) });
  return followEachTransport({
    own: eventPlane(settings, clock, logger, discovery),
    ownKind: kindOf(settings),
    open(transport) {
      if (transport.kind === 'Nats')
        return createNatsEventPlane({ clock, onProblem, client: openNats(settings, clock, 'events', logger) });
      if (transport.kind !== 'ZmqBroker') return createZmqEventPlane({ clock, onProblem });
      const { xsub_endpoints: xsub, xpub_endpoints: xpub } = transport.config;
      return createZmqEventPlane({ clock, onProblem, brokers: fixedBrokers({ xsub, xpub }) });
    },
    onProblem,
  });
}

/** Returns the event plane of a worker, or of a process that follows workers. `discovery` may name its brokers. */
export function eventPlane(settings: FleetSettings, clock: Clock, logger: Logger, discovery: Discovery): EventPlane {
  const common = {
    clock,
    onProblem: (problem: unknown) => logger.warn('event plane problem', { problem: String(problem) }),
  };
  if (settings.eventPlane === 'nats') {
    const { natsStreamReplicas: replicas = 1, natsStreamMaxAgeSecs = 3600, natsStreamMaxMb = 4096 } = settings;
    const log = { replicas, ageMsMax: natsStreamMaxAgeSecs * 1000, bytesMax: natsStreamMaxMb * 2 ** 20 };
    return createNatsEventPlane({ ...common, client: openNats(settings, clock, 'events', logger), log });
  }
  const brokers = brokersOf(settings, logger, discovery);
  const host = fleetHost(settings.eventPlaneHost, settings, undefined);
  const { tcpRpcAdvertiseHost: advertiseHost } = settings;
  return createZmqEventPlane({
    ...common,
    host,
    advertiseHost,
    refusal: refusePublisher(settings),
    ...(brokers === undefined ? {} : { brokers }),
  });
}

/**
 * Returns why a process must not publish events, as one line that says what to change; undefined if it may. With NATS
 * or brokers it opens no port.
 */
export function refusePublisher(settings: FleetSettings): string | undefined {
  if (kindOf(settings) !== 'Zmq') return undefined;
  return refuseOpenListener({
    name: 'a ZMQ publisher of the event plane',
    address: listenAddress(fleetHost(settings.eventPlaneHost, settings, undefined)).bind,
    protectedBy: undefined, // ZeroMQ does not check who subscribes
    open: settings.planeOpen ?? false,
    remedies: remediesOf(settings),
  });
}

/** Returns what an operator can change instead of opening the publisher: only settings that the process accepts. */
function remediesOf({ wire, eventPlaneHost }: FleetSettings): readonly string[] {
  const nats = wire === 'dynamo' ? [] : ['set DYN_EVENT_PLANE=nats']; // Dynamo's form is not built for NATS yet
  const loopback = 'set DYN_EVENT_PLANE_HOST=127.0.0.1 if all subscribers are on this machine';
  return [...nats, ...(eventPlaneHost === undefined ? [] : [loopback])]; // a frontend has no such setting
}

function kindOf({ eventPlane, zmqBrokerUrl, zmqBrokerEnabled }: FleetSettings): EventTransport['kind'] {
  if (eventPlane === 'nats') return 'Nats';
  return zmqBrokerUrl !== undefined || zmqBrokerEnabled === true ? 'ZmqBroker' : 'Zmq';
}

/** Returns the source of the addresses of brokers: those of the settings, otherwise those in discovery. */
function brokersOf(
  { zmqBrokerUrl, zmqBrokerEnabled }: FleetSettings,
  logger: Logger,
  discovery: Discovery,
): ZmqBrokerSource | undefined {
  if (zmqBrokerUrl !== undefined) return fixedBrokers(zmqBrokerUrl);
  if (zmqBrokerEnabled !== true) return undefined;
  return discoveredBrokers(discovery, (namespace) =>
    logger.warn('no ZMQ broker in discovery yet: events reach no process until there is one', { namespace }),
  );
}
