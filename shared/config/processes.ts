/** What a setting can be for. All but `function` are commands of `stator`; a function reads variables only. */
export const PROCESSES = ['frontend', 'worker', 'router', 'planner', 'function', 'local', 'simulate'] as const;

/** One kind of process that reads the table. */
export type Process = (typeof PROCESSES)[number];

/** A process that a user starts by its name. */
export type Command = Exclude<Process, 'function'>;

// Sets that many rows share, so that a row names its readers in one word.

/** Everything that listens on a port of its own for clients. */
export const LISTENERS = ['frontend', 'local'] as const;
/** Everything that takes requests from clients. */
export const EDGES = ['frontend', 'function', 'local'] as const;
/** Everything that can hold a router. */
export const ROUTERS = ['frontend', 'router', 'function', 'local', 'simulate'] as const;
/** Routers that live long enough to keep state of their own. */
export const LASTING_ROUTERS = ['frontend', 'router', 'local', 'simulate'] as const;
/** Routers of a fleet, without the simulator. */
export const FLEET_ROUTERS = ['frontend', 'router', 'function', 'local'] as const;
/** Fleet routers that live long enough to keep state of their own. */
export const LASTING_FLEET_ROUTERS = ['frontend', 'router', 'local'] as const;
/** Routers and workers that hold a timing model. */
export const TIMING_MODEL_USERS = ['frontend', 'router', 'worker', 'local', 'simulate'] as const;
/** Every process of a fleet. */
export const FLEET = ['frontend', 'worker', 'router', 'planner', 'function', 'local'] as const;
/** Every process of a fleet that is not a function. */
export const LASTING_FLEET = ['frontend', 'worker', 'router', 'planner', 'local'] as const;
/** Every process of a fleet that runs in the cloud. */
export const CLOUD = ['frontend', 'worker', 'router', 'planner', 'function'] as const;
/** Every process of a fleet that runs in a container. */
export const CONTAINERS = ['frontend', 'worker', 'router', 'planner'] as const;
/** Everything that can hold a worker. */
export const WORKERS = ['worker', 'local'] as const;
/** Everything that can hold a mock engine. */
export const MOCKERS = ['worker', 'local', 'simulate'] as const;
/** Workers and the standalone router, which both serve the request plane and have a status server. */
export const PLANE_SERVERS = ['worker', 'router', 'local'] as const;

/** The command that runs `process`, as a user types it; functions have none. */
export function commandOf(process: Process): string | undefined {
  return process === 'function' ? undefined : `stator ${process}`;
}
