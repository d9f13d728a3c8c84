import { fleet, fleetRouters, lastingFleet, lastingFleetRouters, worker } from '../row.ts';
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
  wire: worker.choice({
    names: '--wire STATOR_WIRE',
    values: ['stator', 'dynamo'],
    default: 'stator',
    note: 'dynamo needs --discovery-backend file, etcd or kubernetes, --request-plane tcp and --event-plane zmq',
    about: 'Product whose frontends the worker serves: its records in discovery and its request plane are theirs.',
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
    defaultText: `auto = every interface; loopback for ${WITHIN_A_MACHINE} if callers do not authenticate`,
    about: 'Address that a worker or resident router advertises and binds.',
  }),
  tcpRpcPort: lastingFleet.portRange({
    names: 'DYN_TCP_RPC_PORT',
    note: '0 = any free',
    decide: (facts) => byMachines(facts, { first: 8800, last: 8863 }, { first: 0, last: 0 }),
    defaultText: `8800-8863 for ${MANY_MACHINES}; 0 for ${WITHIN_A_MACHINE}`,
    source: '1.6.1; range: Stator',
    about:
      'Port that a worker or resident router binds. Of a range, which a firewall can name, the first free port is used.',
  }),
  tcpRpcAdvertiseHost: lastingFleet.text({
    names: 'DYN_TCP_RPC_ADVERTISE_HOST',
    allowed: 'IP or host name',
    defaultText: 'DYN_TCP_RPC_HOST; if that is every interface, the first address that others can reach',
    source: 'Stator',
    about: 'Address under which other machines reach the listener, if it differs from DYN_TCP_RPC_HOST.',
  }),
  tcpResponseStreamHost: lastingFleetRouters.text({
    names: 'DYN_TCP_RESPONSE_STREAM_HOST',
    allowed: 'IP, host name or network interface',
    defaultText: `auto = every interface; loopback for ${WITHIN_A_MACHINE}`,
    about: "Address that Dynamo's workers dial to deliver their answers; this process binds it for the first request.",
  }),
  tcpResponseStreamPort: lastingFleetRouters.port({
    names: 'DYN_TCP_RESPONSE_STREAM_PORT',
    note: '0 = any free',
    default: 0,
    about: "Port that Dynamo's workers dial to deliver their answers.",
  }),
  tcpRequestTimeoutSecs: fleetRouters.decimal({
    names: 'DYN_TCP_REQUEST_TIMEOUT',
    range: { above: 0, unit: 's' },
    default: 5,
    about: 'Longest wait for a worker to accept a request (its frame PROLOGUE after OPEN).',
  }),
  tcpConnectTimeoutSecs: fleetRouters.decimal({
    names: 'DYN_TCP_CONNECT_TIMEOUT',
    range: { above: 0, unit: 's' },
    default: 5,
    about: 'Deadline of connecting to a worker.',
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
    about: 'Streams in flight per connection, as the caller sets it; a worker accepts every allowed number.',
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
    about: 'Previous STATOR_PLANE_TOKEN during a rotation: a peer that proves it is still accepted.',
  }),
  planeTls: fleet.choice({
    names: 'STATOR_PLANE_TLS',
    values: ['auto', 'on', 'off'],
    default: 'auto',
    about:
      'Whether a plane token without certificates encrypts the TCP plane, and whether services that take the token need a certificate; auto = beyond loopback.',
  }),
  planeOpen: lastingFleet.bool({
    names: 'STATOR_PLANE_OPEN',
    about: 'Lets listeners for the fleet open beyond loopback although callers do not authenticate.',
  }),
  natsRequestTimeoutSecs: fleet.decimal({
    names: 'DYN_NATS_REQUEST_TIMEOUT_SECS',
    range: { above: 0, unit: 's' },
    default: 10,
    about: 'Deadline of a request acknowledgement over NATS.',
  }),
};
