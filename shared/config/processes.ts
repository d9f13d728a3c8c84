/** What a setting can be for. All but `function` are commands of `stator`; a function reads variables only. */
export const PROCESSES = [
  'frontend',
  'grpc',
  'worker',
  'router',
  'planner',
  'function',
  'local',
  'simulate',
  'keys',
] as const;

/** One kind of process that reads the table. */
export type Process = (typeof PROCESSES)[number];

// Sets that many rows share, so that a row names its readers in one word.

/** Everything that answers HTTP. */
export const HTTP_SERVERS = ['frontend', 'function', 'local'] as const;
/** Everything that listens on a port of its own for clients. */
export const LISTENERS = ['frontend', 'grpc', 'local'] as const;
/** Everything that takes requests from clients. */
export const EDGES = ['frontend', 'grpc', 'function', 'local'] as const;
/** Everything that can hold a router. */
export const ROUTERS = ['frontend', 'grpc', 'router', 'function', 'local', 'simulate'] as const;
/** Routers that live long enough to keep state of their own. */
export const LASTING_ROUTERS = ['frontend', 'grpc', 'router', 'local', 'simulate'] as const;
/** Routers of a fleet, without the simulator. */
export const FLEET_ROUTERS = ['frontend', 'grpc', 'router', 'function', 'local'] as const;
/** Fleet routers that live long enough to keep state of their own. */
export const LASTING_FLEET_ROUTERS = ['frontend', 'grpc', 'router', 'local'] as const;
/** Both ends of the request plane. */
export const PLANE_ENDS = ['frontend', 'grpc', 'worker', 'router', 'function', 'local'] as const;
/** Both ends of the request plane, without functions. */
export const LASTING_PLANE_ENDS = ['frontend', 'grpc', 'worker', 'router', 'local'] as const;
/** Routers and workers that hold a timing model. */
export const TIMING_MODEL_USERS = ['frontend', 'grpc', 'router', 'worker', 'local', 'simulate'] as const;
/** Every process of a fleet. */
export const FLEET = ['frontend', 'grpc', 'worker', 'router', 'planner', 'function', 'local'] as const;
/** Every process of a fleet that is not a function. */
export const LASTING_FLEET = ['frontend', 'grpc', 'worker', 'router', 'planner', 'local'] as const;
/** Every process of a fleet that runs in the cloud. */
export const CLOUD = ['frontend', 'grpc', 'worker', 'router', 'planner', 'function'] as const;
/** Every process of a fleet that runs in a container. */
export const CONTAINERS = ['frontend', 'grpc', 'worker', 'router', 'planner'] as const;
/** Everything that can hold a worker. */
export const WORKERS = ['worker', 'local'] as const;
/** Everything that can hold a mock engine. */
export const MOCKERS = ['worker', 'local', 'simulate'] as const;
/** Workers and the standalone router, which both serve the request plane. */
export const PLANE_SERVERS = ['worker', 'router', 'local'] as const;
/** Everything with a status server. */
export const STATUS_SERVERS = ['worker', 'router', 'planner', 'local'] as const;
/** Everything that can hold a planner. */
export const PLANNERS = ['planner', 'function', 'local'] as const;

/** The command that runs `process`, as a user types it; functions have none. */
export function commandOf(process: Process): string | undefined {
  return process === 'function' ? undefined : `stator ${process}`;
}
