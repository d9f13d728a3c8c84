import { frontend, listeners } from '../row.ts';

/** Rows of "KServe gRPC". */
export const grpcRows = {
  kserveGrpcServer: frontend.bool({
    names: '--kserve-grpc-server DYN_KSERVE_GRPC_SERVER',
    source: 'Dynamo',
    about: 'Serves KServe v2 by gRPC on --http-port, and no OpenAI routes, as stator grpc does.',
  }),
  grpcPort: listeners.port({
    names: '--grpc-port STATOR_GRPC_PORT',
    defaultText: 'unset = no gRPC; 8001 with the role grpc',
    about: 'KServe v2 by gRPC on a port of its own, beside HTTP.',
  }),
  grpcMetricsPort: frontend.port({
    names: '--grpc-metrics-port DYN_GRPC_METRICS_PORT',
    default: 8788,
    source: 'Dynamo',
    about: 'HTTP port of health, metrics and operators beside --kserve-grpc-server.',
  }),
  grpcMaxMessageMb: listeners.int({
    names: '--grpc-max-message-mb STATOR_GRPC_MAX_MESSAGE_MB',
    range: { min: 1, max: 2047, unit: 'MiB' },
    default: 4,
    about: 'Largest message of a gRPC client; responses have no such limit.',
  }),
  grpcInitialStreamWindowSize: listeners.int({
    names: 'DYN_GRPC_INITIAL_STREAM_WINDOW_SIZE',
    range: { min: 65_535, max: 2_147_483_647, unit: 'bytes' },
    default: 1_048_576,
    source: 'Dynamo',
    about: 'Bytes that a gRPC client may send on a stream before the server has read any of them.',
  }),
  grpcInitialConnectionWindowSize: listeners.int({
    names: 'DYN_GRPC_INITIAL_CONNECTION_WINDOW_SIZE',
    range: { min: 65_535, max: 2_147_483_647, unit: 'bytes' },
    default: 1_048_576,
    source: 'Dynamo',
    about:
      'Bytes that a gRPC client may send on a connection, all streams together, before the server has read any of them.',
  }),
  grpcMaxConcurrentStreams: listeners.int({
    names: 'STATOR_GRPC_MAX_CONCURRENT_STREAMS',
    range: { min: 1, max: 1_000_000 },
    default: 1000,
    about: 'Calls at the same time on one gRPC connection.',
  }),
  grpcMaxConnections: listeners.int({
    names: 'STATOR_GRPC_MAX_CONNECTIONS',
    range: { min: 1, max: 1_000_000 },
    defaultText: 'half of the files that the process may open, 8192 at most',
    about:
      'Connections of gRPC clients at the same time; a further one replaces an idle connection of the address that has the most.',
  }),
  grpcKeepaliveTimeMs: listeners.int({
    names: 'STATOR_GRPC_KEEPALIVE_TIME_MS',
    range: { min: 0, max: 86_400_000, unit: 'ms' },
    note: '0 = never',
    default: 30_000,
    about: 'Interval of pings to gRPC clients; the server closes a connection that does not answer.',
  }),
  grpcKeepaliveTimeoutMs: listeners.int({
    names: 'STATOR_GRPC_KEEPALIVE_TIMEOUT_MS',
    range: { min: 1, max: 86_400_000, unit: 'ms' },
    default: 20_000,
    about: 'How long a gRPC client may take to answer a ping.',
  }),
  grpcMaxConnectionAgeMs: listeners.int({
    names: 'STATOR_GRPC_MAX_CONNECTION_AGE_MS',
    range: { min: 0, max: 2_147_483_647, unit: 'ms' },
    note: '0 = any',
    default: 0,
    about: 'Age of a connection at which the server asks its gRPC client to connect anew, for load balancing.',
  }),
};
