import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { type SpawnedProcess, spawnProgram } from '../../spawn-node.ts';
import type { ContainerPlan } from './containers.ts';
import { FailureCount, type TimeScales } from './failure-count.ts';
import type { LocalImage, Localize } from './machine.ts';

/**
 * Health of a container as ECS reports it. `unknown` means that it has no health check, or that none has passed yet.
 */
export type Health = 'unknown' | 'healthy' | 'unhealthy';

interface Start {
  readonly image: LocalImage;
  readonly localize: Localize;
  /** Further variables: secrets, and variables that the machine adds. */
  readonly environment: Readonly<Record<string, string>>;
  readonly folder: string;
  readonly scales: TimeScales;
}

/** The process of a container, with its health check. */
export class RunningContainer {
  readonly plan: ContainerPlan;
  readonly process: SpawnedProcess;
  /** Exit code. It is null after a signal, and undefined while the container runs. */
  exitCode: number | null | undefined;
  health: Health = 'unknown';
  readonly #environment: Record<string, string | undefined>;
  readonly #start: Start;
  readonly #isOver = new AbortController();
  #isFrozen = false;

  constructor(plan: ContainerPlan, start: Start) {
    this.plan = plan;
    this.#start = start;
    const { image, localize } = start;
    const none = Object.fromEntries(Object.keys(process.env).map((name) => [name, undefined]));
    const given = Object.entries({ ...image.environment, ...plan.environment });
    const here = given.map(([name, value]) => [name, name === 'PATH' ? value : localize(value)]);
    this.#environment = { ...none, TMPDIR: start.folder, ...Object.fromEntries(here), ...start.environment };
    const line = [...(plan.entryPoint ?? image.entryPoint), ...(plan.command ?? image.command)];
    const [program = '', ...args] = line.map(localize);
    this.process = spawnProgram(program, args, { env: this.#environment, cwd: start.folder });
    void this.process.exited.then((code) => {
      this.exitCode = code;
      this.#isOver.abort();
    });
    if (plan.health !== undefined) void this.#watch(plan.health);
  }

  get isRunning(): boolean {
    return this.exitCode === undefined;
  }

  /** Silences the process without ending it or its connections. */
  freeze(): void {
    this.#isFrozen = true;
    this.process.signal('SIGSTOP');
  }

  /** Sends SIGTERM, and SIGKILL after the stop time-out. */
  async stop(): Promise<void> {
    this.process.signal('SIGTERM');
    const deadline = setTimeout(() => this.process.signal('SIGKILL'), this.plan.stopTimeoutMs);
    await this.process.exited;
    clearTimeout(deadline);
  }

  /**
   * Runs the health check. Failures count after the start period, or after the first success. `retries` failures in a
   * row make the container unhealthy.
   */
  async #watch({ intervalMs, retries, startPeriodMs, ...check }: NonNullable<ContainerPlan['health']>): Promise<void> {
    const { signal } = this.#isOver;
    const { scales } = this.#start;
    const countsFromMs = performance.now() + startPeriodMs * scales.patienceScale;
    const failures = new FailureCount(retries, intervalMs, scales);
    while (!signal.aborted) {
      // the process has ended, which the loop condition notices
      await sleep(intervalMs * scales.timeScale, undefined, { signal }).catch(() => {});
      if (signal.aborted || this.#isFrozen) return;
      const isGood = await this.#ask(check.command, check.timeoutMs);
      if (signal.aborted) return;
      if (isGood) {
        failures.reset();
        this.health = 'healthy';
      } else if (this.health === 'healthy' || performance.now() >= countsFromMs) failures.add();
      if (failures.isOver) this.health = 'unhealthy';
    }
  }

  #ask([kind, ...rest]: readonly string[], timeoutMs: number): Promise<boolean> {
    const texts = rest.map(this.#start.localize);
    const [program = '', ...args] = kind === 'CMD-SHELL' ? ['/bin/sh', '-c', ...texts] : texts;
    const options = {
      env: this.#environment,
      cwd: this.#start.folder,
      timeout: timeoutMs,
      signal: this.#isOver.signal,
    };
    return new Promise((resolve) => execFile(program, args, options, (error) => resolve(error === null)));
  }
}
