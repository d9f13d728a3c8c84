import type { Process } from '../../shared/config/index.ts';

/**
 * A process of a deployment: the function, the container edge (a router, with an HTTP server if it has a listener), a
 * worker.
 */
export type Role = 'function' | 'edge' | 'worker';

/** Process of each role, and its name in messages. */
export const ROLES: Readonly<Record<Role, { readonly process: Process; readonly beside: string }>> = {
  function: { process: 'function', beside: 'the function' },
  edge: { process: 'frontend', beside: 'the container edge' },
  worker: { process: 'worker', beside: 'workers' },
};

const MADE = 'names what this deployment makes';
const ONE_FLEET = 'is how the processes of a fleet find each other, alike in all of them';
const GENERATIONS = 'follows from generation of fleets';
const PORTS = 'is what security groups and health checks are made for';
const PLATFORM = 'is set by the platform';
const EMF = 'is the dimension that alarms and the dashboard read';
const OPEN = 'would let in every process that reaches the port';
const JSON_LINES = 'is the form in which CloudWatch reads lines';
const NO_PLANNER = 'is planner.queueArn of this file, which gives the rights as well';
const NO_ZMQ = 'is for ZeroMQ, and events go through NATS here';
const NO_ETCD = 'is of etcd, and the processes find each other in the table of this deployment';
const NO_KUBERNETES = 'is of Kubernetes, and the processes find each other in the table of this deployment';
const BY_SETTING = (path: string) => `is ${path} of this file`;

/** Names of older spellings go with the newer one. */
type Refusals = Readonly<Record<string, string>>;

/** Refused for every process. */
const EVERYWHERE: Refusals = {
  DYN_DISCOVERY_BACKEND: ONE_FLEET,
  STATOR_DISCOVERY_TABLE: MADE,
  ETCD_ENDPOINTS: NO_ETCD,
  ETCD_LEASE_TTL: NO_ETCD,
  ETCD_AUTH_USERNAME: NO_ETCD,
  ETCD_AUTH_CA: NO_ETCD,
  ETCD_AUTH_CLIENT_CERT: NO_ETCD,
  ETCD_AUTH_CLIENT_KEY: NO_ETCD,
  DYN_KUBE_DISCOVERY_MODE: NO_KUBERNETES,
  POD_NAME: NO_KUBERNETES,
  POD_UID: NO_KUBERNETES,
  POD_NAMESPACE: NO_KUBERNETES,
  CONTAINER_NAME: NO_KUBERNETES,
  DYN_MAIN_CONTAINER_NAME: NO_KUBERNETES,
  STATOR_PLANE_TOKEN_SECRET: MADE,
  STATOR_NATS_SECRET: MADE,
  STATOR_ID_SECRET_SECRET: MADE,
  STATOR_SECRETS_TABLE: MADE,
  STATOR_KEYS_TABLE: MADE,
  STATOR_RESPONSES_TABLE: MADE,
  STATOR_STATE_TABLE: MADE,
  STATOR_ARTIFACTS_BUCKET: MADE,
  STATOR_EMF: EMF,
  STATOR_EMF_SERVICE: EMF,
  STATOR_AUTH: 'is always on: a client that reaches the endpoint must show a key',
  STATOR_KEY_CACHE_SECS: BY_SETTING('keys.cacheSecs'),
  STATOR_METRICS_AUTH: BY_SETTING('keys.metrics'),
  STATOR_DOCS_AUTH: BY_SETTING('keys.docs'),
  DYN_REQUEST_PLANE: ONE_FLEET,
  DYN_NAMESPACE: GENERATIONS,
  DYN_NAMESPACE_PREFIX: GENERATIONS,
  DYN_NAMESPACE_WORKER_SUFFIX: GENERATIONS,
  DYN_LOGGING_JSONL: JSON_LINES,
  DYN_LOG_USE_LOCAL_TZ: JSON_LINES,
  AWS_REGION: PLATFORM,
  STATOR_PLANNER_QUEUE_URL: NO_PLANNER,
  STATOR_SQS_ENDPOINT: NO_PLANNER,
};

const NO_NATS = 'is of NATS, which nothing lets the function reach: it asks the resident router';

const PLANNED = 'follows from fleets of kind ec2';

/** Refused for the function. */
const FUNCTION: Refusals = {
  STATOR_PLANNED_MODELS: PLANNED,
  STATOR_PLANNER_TABLE: MADE,
  DYN_HTTP_BODY_LIMIT_MB: 'is 6, the largest body that Lambda takes',
  STATOR_DEADLINE_MARGIN_SECS: 'belongs to the time that the function is given',
  STATOR_HOLD_TIMEOUT: BY_SETTING('limits.holdSecs'),
  STATOR_MAX_TOKENS_DEFAULT: BY_SETTING('limits.maxTokensFunction'),
  DYN_EVENT_PLANE: NO_NATS,
  DYN_NATS_REQUEST_TIMEOUT_SECS: NO_NATS,
  NATS_SERVER: NO_NATS,
  NATS_AUTH_USERNAME: NO_NATS,
  NATS_AUTH_CREDENTIALS_FILE: NO_NATS,
  NATS_TLS_CA_CERT_PATH: NO_NATS,
  NATS_TLS_INSECURE: NO_NATS,
  NATS_TLS_CLIENT_CERT_PATH: NO_NATS,
  NATS_TLS_CLIENT_KEY_PATH: NO_NATS,
};

/** Refused for every container. */
const CONTAINER: Refusals = {
  DYN_EVENT_PLANE: ONE_FLEET,
  DYN_ZMQ_BROKER_URL: NO_ZMQ,
  DYN_ZMQ_BROKER_ENABLED: NO_ZMQ,
  DYN_EVENT_PLANE_HOST: NO_ZMQ,
  DYN_FILE_KV: ONE_FLEET,
  NATS_SERVER: MADE,
  NATS_AUTH_USERNAME: MADE,
  NATS_AUTH_CREDENTIALS_FILE: 'is not how the servers of this deployment know their clients',
  STATOR_NATS_STREAM_REPLICAS: BY_SETTING('nats.servers'),
  DYN_TCP_RPC_PORT: PORTS,
  DYN_TCP_RPC_HOST: 'is the address of the task, which is not known before the task runs',
  DYN_TCP_RPC_ADVERTISE_HOST: 'is the address of the task, which is not known before the task runs',
  STATOR_PLANE_OPEN: OPEN,
};

const TLS_OF_HTTP = 'is of a server that speaks TLS itself: the load balancer does, and health checks speak HTTP';

/** Refused for the container edge. */
const EDGE: Refusals = {
  ...CONTAINER,
  STATOR_PLANNED_MODELS: PLANNED,
  DYN_HTTP_HOST: PORTS,
  DYN_HTTP_PORT: PORTS,
  DYN_HTTP_SVC_LIVE_PATH_ENV: PORTS,
  DYN_HTTP_SVC_LIVE_PATH: PORTS,
  DYN_HTTP_BODY_LIMIT_MB: BY_SETTING('limits.bodyMb'),
  DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: 'belongs to the time after which the platform kills a task',
  STATOR_HTTP_KEEP_ALIVE_SECS: 'must be longer than the load balancer waits, and is',
  STATOR_HOLD_TIMEOUT: BY_SETTING('limits.holdSecs'),
  STATOR_KEYS_FILE: 'is for keys without a table, and this deployment has a table',
  DYN_INTERACTIVE: 'is for a person at a terminal',
  STATOR_ROLES: BY_SETTING('edges.container.listener'),
  STATOR_ROUTER_ROLE: BY_SETTING('edges.container.listener'),
  DYN_KSERVE_GRPC_SERVER: BY_SETTING('edges.container.grpc'),
  STATOR_GRPC_PORT: BY_SETTING('edges.container.grpc'),
  DYN_GRPC_METRICS_PORT: PORTS,
  STATOR_ROUTER_GRPC_PORT: PORTS,
  STATOR_ENDPOINT_PICKER_PORT: PORTS,
  DYN_TLS_CERT_PATH: TLS_OF_HTTP,
  DYN_TLS_KEY_PATH: TLS_OF_HTTP,
  DYN_TLS_CLIENT_CA_CERT_PATH: TLS_OF_HTTP,
};

/** Refused for a worker. */
const WORKER: Refusals = {
  ...CONTAINER,
  STATOR_ENGINE: BY_SETTING('kind of the fleet'),
  DYN_VLLM_DISAGGREGATION_MODE: BY_SETTING('pool of the fleet'),
  DYN_VLLM_IS_PREFILL_WORKER: BY_SETTING('pool of the fleet'),
  DYN_VLLM_IS_DECODE_WORKER: BY_SETTING('pool of the fleet'),
  DYN_MODEL_NAME: BY_SETTING('model of the fleet'),
  DYN_ENDPOINT: GENERATIONS,
  DYN_STABLE_ROUTING_ID: 'would be one name for all workers of the fleet',
  DYN_SYSTEM_PORT: PORTS,
  DYN_SYSTEM_HOST: PORTS,
  DYN_SYSTEM_ENABLED: PORTS,
  DYN_SYSTEM_LIVE_PATH: PORTS,
  STATOR_CONTROL_PORT: 'is a port that no client can reach',
  STATOR_CONTROL_HOST: 'is the address of a port that no client can reach',
  STATOR_HOST_FACTS: 'is what the agent of a machine tells its workers',
  DYN_VLLM_HEADLESS: 'is for a part of an engine that serves no requests',
};

/** Settings of a worker that have only a flag. */
const WORKER_FLAGS: Refusals = {
  '--num-workers': BY_SETTING('workers of the fleet'),
  '--model': BY_SETTING('model of the fleet'),
  '--served-model-name': BY_SETTING('model of the fleet'),
};

const BY_ROLE: Readonly<Record<Role, Refusals>> = {
  function: { ...EVERYWHERE, ...FUNCTION },
  edge: { ...EVERYWHERE, ...EDGE },
  worker: { ...EVERYWHERE, ...WORKER, ...WORKER_FLAGS },
};

/** Why the file may not give this variable, or this flag of `stator worker`, to the role; undefined for what it may. */
export function refusalOf(role: Role, name: string): string | undefined {
  return Object.hasOwn(BY_ROLE[role], name) ? BY_ROLE[role][name] : undefined;
}
