import type { Clock } from '../clock/index.ts';
import { forAtMost } from '../concurrency/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { Logger } from '../telemetry/index.ts';
import type { ReplicaFacts, Told } from './law/types.ts';
import type { ReplicaRunner, ReplicaSpec, RunningReplica } from './runners/types.ts';

interface ReplicaOptions {
  readonly index: number;
  readonly runner: ReplicaRunner;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly healthUrl: string;
  /** Called with each piece of output. */
  onOutput(text: string): void;
  /** Called when its state has changed. */
  onChange(): void;
  /** Called when it has ended without having been told to. */
  onFailure(): void;
}

/** Window in which ends of a worker that serves count together. */
const FAILURE_WINDOW_MS = 600_000;
const FAILURES_KEPT = 16;
const HEALTH_MS_MAX = 2000;

/** One worker of the machine. It outlives its agent; the next agent adopts it. */
export class Replica {
  readonly #options: ReplicaOptions;
  #running: RunningReplica | undefined;
  #isStarting = false;
  #isReady = false;
  #told: Told = 'nothing';
  #failuresAtMs: number[] = [];
  #endedAtMs: number | undefined;

  constructor(options: ReplicaOptions) {
    this.#options = options;
  }

  facts(isServing: boolean): ReplicaFacts {
    const sinceMs = isServing ? this.#options.clock.wallMs() - FAILURE_WINDOW_MS : 0;
    return {
      state: this.#running === undefined && !this.#isStarting ? 'absent' : this.#isReady ? 'ready' : 'starting',
      told: this.#told,
      failures: this.#failuresAtMs.filter((atMs) => atMs >= sinceMs).length,
      endedAtMs: this.#endedAtMs,
    };
  }

  get told(): Told {
    return this.#told;
  }

  /** Forgets earlier ends: a new start begins. */
  forgive(): void {
    this.#failuresAtMs = [];
    this.#endedAtMs = undefined;
  }

  async start(spec: ReplicaSpec): Promise<void> {
    if (this.#running !== undefined || this.#isStarting) return;
    this.#isStarting = true;
    const { runner, logger, index, onOutput } = this.#options;
    try {
      const running = await runner.start(spec, onOutput);
      logger.info('worker started', { worker: index, name: running.name, gpus: spec.gpus.join(',') });
      this.#take(running, 'nothing');
    } finally {
      this.#isStarting = false;
    }
  }

  /**
   * Takes over a worker that an earlier agent has started. A worker that still serves never got the wish to drain: the
   * agent ended between keeping the wish and sending it.
   */
  async adopt(told: Told, abort: AbortSignal): Promise<void> {
    const { runner, logger, index, onOutput } = this.#options;
    const running = await runner.adopt(index, onOutput);
    if (running === undefined) return;
    this.#take(running, told);
    await this.look(abort);
    if (this.#isReady && this.#told === 'drain') this.#told = 'nothing';
    logger.info('worker taken over', { worker: index, name: running.name, told: this.#told });
  }

  /**
   * Sends a wish to the worker. @param keep stores the wish before it is sent: a new agent that sent it twice would end
   * the worker at once
   */
  async tell(wish: Exclude<Told, 'nothing'>, keep: () => Promise<void>): Promise<void> {
    const running = this.#running;
    if (running === undefined) return;
    const before = this.#told;
    this.#told = wish;
    await keep();
    try {
      await running.signal(wish === 'kill' ? 'SIGKILL' : 'SIGTERM');
    } catch (thrown) {
      if (this.#running === running) this.#told = before;
      throw thrown;
    }
  }

  /** Asks its health page, which answers 200 only while the worker is registered. */
  async look(signal: AbortSignal): Promise<void> {
    if (this.#running === undefined) return;
    const { clock, healthUrl, onChange } = this.#options;
    const was = this.#isReady;
    let isReady = false;
    try {
      await forAtMost({ clock, timeoutMs: HEALTH_MS_MAX, signal }, async (abort) => {
        const response = await fetch(healthUrl, { signal: abort });
        await response.body?.cancel();
        isReady = response.ok;
      });
    } catch {
      // It does not listen yet, or no more: not ready.
    }
    this.#isReady = isReady && this.#running !== undefined;
    if (this.#isReady !== was) onChange();
  }

  release(): void {
    this.#running?.release();
  }

  #take(running: RunningReplica, told: Told): void {
    const { clock, logger, index, onChange, onFailure } = this.#options;
    this.#running = running;
    this.#told = told;
    running.ended
      .then(({ code, reason }) => {
        const isWanted = this.#told !== 'nothing';
        logger[isWanted ? 'info' : 'error'](isWanted ? 'worker has ended' : 'worker ended by itself', {
          worker: index,
          code,
          reason,
        });
        this.#endedAtMs = clock.wallMs();
        if (!isWanted) {
          this.#failuresAtMs = [...this.#failuresAtMs, this.#endedAtMs].slice(-FAILURES_KEPT);
          onFailure();
        }
        this.#running = undefined;
        this.#isReady = false;
        this.#told = 'nothing';
        onChange();
      })
      .catch((thrown: unknown) => logger.error('worker lost from sight', { worker: index, reason: reasonOf(thrown) }));
  }
}
