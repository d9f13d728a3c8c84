/** Command line of one worker, for any runner. */
export interface ReplicaSpec {
  /** Place among the workers of the machine, from 0. */
  readonly index: number;
  /** Arguments of `stator worker`. */
  readonly args: readonly string[];
  /** Environment of the worker, whole. */
  readonly env: Readonly<Record<string, string>>;
  /** Numbers of its GPUs on this machine; empty = none. */
  readonly gpus: readonly number[];
}

/** End of a worker. */
export interface ReplicaEnd {
  /** Exit code; undefined if a signal ended it, or if an earlier agent had started it. */
  readonly code: number | undefined;
  /** Description with the last lines of its output, for logs. */
  readonly reason: string;
}

/** A worker that runs. It outlives the agent, unless the agent ends it. */
export interface RunningReplica {
  /** Process id or name of the container, for logs. */
  readonly name: string;
  /** Resolves when it has ended, however that came. */
  readonly ended: Promise<ReplicaEnd>;
  /** Sends a signal. Does nothing after the end. Rejects if the runner cannot be asked. */
  signal(name: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Stops following it without ending it. */
  release(): void;
}

/** How workers run. */
export interface ReplicaRunner {
  readonly kind: 'docker' | 'process';
  /** Fetches what workers need besides weights. @param onProgress is called whenever something has moved */
  prepare(onProgress: () => void, signal: AbortSignal): Promise<void>;
  /** Starts a worker. What ran under this index before must have ended. @param onOutput gets its output */
  start(spec: ReplicaSpec, onOutput: (text: string) => void): Promise<RunningReplica>;
  /**
   * Takes over the worker that an earlier agent has started; returns undefined if there is none. Rejects if the runner
   * cannot be asked.
   */
  adopt(index: number, onOutput: (text: string) => void): Promise<RunningReplica | undefined>;
}
