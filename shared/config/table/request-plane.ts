import { fleet, fleetRouters, lastingFleet, lastingFleetRouters } from '../row.ts';
import { byMachines, MANY_MACHINES, WITHIN_A_MACHINE } from './discovery.ts';

/** Rows of "Request plane". */
export const requestPlaneRows = {
  requestPlane: fleet.choice({
    names: '--request-plane DYN_REQUEST_PLANE',
    values: ['tcp', 'nats'],
    default: 'tcp',
    source: 'Dynamo',
    about: 'Carries requests.',
  }),
  responsePlane: fleet.choice({
    names: '--response-plane DYN_RESPONSE_PLANE',
    values: ['tcp'],
    refused: { quic: 'not built yet' },
    default: 'tcp',
    about: 'Carries responses.',
  }),
  requestPlaneCodec: fleet.choice({
    names: 'DYN_REQUEST_PLANE_CODEC',
    values: ['msgpack'],
    refused: { json: 'not built yet' },
    default: 'msgpack',
    about: 'Codec of request payloads.',
  }),
  tcpRpcHost: lastingFleet.text({
    names: 'DYN_TCP_RPC_HOST',
    allowed: 'IP or host name',
    defaultText: `auto = every interface; loopback for ${WITHIN_A_MACHINE} where callers prove nothing`,
    about: 'Address that a worker or resident router advertises and binds.',
  }),
  tcpRpcPort: lastingFleet.portRange({
    names: 'DYN_TCP_RPC_PORT',
    note: '0 = any free',
    decide: (facts) => byMachines(facts, { first: 8800, last: 8863 }, { first: 0, last: 0 }),
    defaultText: `8800-8863 for ${MANY_MACHINES}; 0 for ${WITHIN_A_MACHINE}`,
    source: '1.6.1; range: Stator',
    about: 'Port that a worker or resident router binds: the first free one of a range, which a firewall can name.',
  }),
  tcpRpcAdvertiseHost: lastingFleet.text({
    names: 'DYN_TCP_RPC_ADVERTISE_HOST',
    allowed: 'IP or host name',
    defaultText: 'DYN_TCP_RPC_HOST; of every interface the first address that others can reach',
    source: 'Stator',
    about: 'Address under which others reach what DYN_TCP_RPC_HOST binds, where it is another one.',
  }),
  tcpRequestTimeoutSecs: fleetRouters.decimal({
    names: 'DYN_TCP_REQUEST_TIMEOUT',
    range: { above: 0, unit: 's' },
    default: 5,
    about: 'Deadline of PROLOGUE after OPEN.',
  }),
  tcpConnectTimeoutSecs: fleetRouters.decimal({
    names: 'DYN_TCP_CONNECT_TIMEOUT',
    range: { above: 0, unit: 's' },
    default: 5,
    about: 'Deadline of a connection.',
  }),
  tcpPoolSize: lastingFleetRouters.int({
    names: 'DYN_TCP_POOL_SIZE',
    range: { min: 1 },
    default: 100,
    about: 'Connections per worker; a function uses at most 2.',
  }),
  tcpChannelBuffer: fleetRouters.int({
    names: 'DYN_TCP_CHANNEL_BUFFER',
    range: { min: 1, max: 65536 },
    default: 1024,
    about: 'Streams in flight per connection; a worker takes as many as any caller may set.',
  }),
  tcpMaxMessageSize: fleet.int({
    names: 'DYN_TCP_MAX_MESSAGE_SIZE',
    range: { min: 65536, unit: 'bytes' },
    default: 33554432,
    about: 'Largest frame.',
  }),
  planeToken: fleet.secret({
    names: 'STATOR_PLANE_TOKEN',
    minLength: 32,
    defaultText: 'unset = off',
    about: 'Shared secret that both ends of the request plane prove to each other; it never crosses the wire.',
  }),
  planeTokenPrevious: fleet.secretOrNone({
    names: 'STATOR_PLANE_TOKEN_PREVIOUS',
    minLength: 32,
    about: 'The token before STATOR_PLANE_TOKEN was rotated: who proves it is still believed.',
  }),
  planeTls: fleet.choice({
    names: 'STATOR_PLANE_TLS',
    values: ['auto', 'on', 'off'],
    default: 'auto',
    about:
      'Whether the plane token alone encrypts the TCP plane, and its services want a certificate; auto = beyond loopback.',
  }),
  planeOpen: lastingFleet.bool({
    names: 'STATOR_PLANE_OPEN',
    about: 'Lets listeners for the fleet open beyond loopback although callers prove nothing.',
  }),
  natsRequestTimeoutSecs: fleet.decimal({
    names: 'DYN_NATS_REQUEST_TIMEOUT_SECS',
    range: { above: 0, unit: 's' },
    default: 10,
    about: 'Deadline of a request acknowledgement over NATS.',
  }),
};
