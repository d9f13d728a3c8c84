import type { Applied, Connector, Observed, ObservedPool, Plan, Step } from './connector.ts';

/** Workers of this machine, whose number can change. */
export interface ScalableWorkers {
  readonly ready: number;
  readonly starting: number;
  /**
   * Seconds from a start to a worker that serves, of the last starts: the 90th percentile; undefined before the first.
   */
  readonly startSeconds: number | undefined;
  /** Starts missing workers; surplus ones take no new requests and end with their last one. */
  scaleTo(count: number): void;
}

const NO_WORKERS: ObservedPool = { ready: 0, starting: 0, draining: 0, desired: 0, refreshing: false, options: [] };

/** Scales processes of this machine: one pool, which counts as decode. */
export class LocalConnector implements Connector {
  readonly name = 'local';
  readonly #workers: ScalableWorkers;

  constructor(workers: ScalableWorkers) {
    this.#workers = workers;
  }

  async observe(signal: AbortSignal): Promise<Observed> {
    signal.throwIfAborted();
    const { ready, starting, startSeconds } = this.#workers;
    const decode = { ...NO_WORKERS, ready, starting, desired: ready + starting };
    return { pools: { decode, prefill: NO_WORKERS }, startSeconds };
  }

  plan: Connector['plan'] = ({ targets: { decode } }, { pools }, memory): Plan => {
    const { ready = 0, starting = 0 } = pools?.decode ?? {};
    const isChanged = decode !== undefined && ready + starting !== decode;
    const steps: Step[] = isChanged ? [{ kind: 'targets', targets: { decode } }] : [];
    return { steps, victims: [], isDone: !isChanged && (decode === undefined || starting === 0), memory };
  };

  async apply(steps: readonly Step[], signal: AbortSignal): Promise<Applied> {
    signal.throwIfAborted();
    for (const step of steps) {
      if (step.kind === 'targets' && step.targets.decode !== undefined) this.#workers.scaleTo(step.targets.decode);
    }
    return 'accepted';
  }

  async close(): Promise<void> {}
}
