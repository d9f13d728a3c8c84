import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { type SpawnedProcess, spawnProgram } from '../../spawn-node.ts';
import type { ContainerPlan } from './containers.ts';
import { FailureCount, type TimeScales } from './failure-count.ts';
import type { LocalImage, Localize } from './machine.ts';

/** How a container is, as ECS tells it. `unknown`: it has no health check, or none has succeeded yet. */
export type Health = 'unknown' | 'healthy' | 'unhealthy';

interface Start {
  readonly image: LocalImage;
  readonly localize: Localize;
  /** Further variables: secrets, and what the machine adds. */
  readonly environment: Readonly<Record<string, string>>;
  readonly folder: string;
  readonly scales: TimeScales;
}

/** The process of a container, with its health check. */
export class RunningContainer {
  readonly plan: ContainerPlan;
  readonly process: SpawnedProcess;
  /** Exit code, null after a signal; undefined while it runs. */
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

  /** Nothing is heard of it any more, and nothing of what it had open ends. */
  freeze(): void {
    this.#isFrozen = true;
    this.process.signal('SIGSTOP');
  }

  /** SIGTERM, and SIGKILL once its time is over. */
  async stop(): Promise<void> {
    this.process.signal('SIGTERM');
    const deadline = setTimeout(() => this.process.signal('SIGKILL'), this.plan.stopTimeoutMs);
    await this.process.exited;
    clearTimeout(deadline);
  }

  /** Failures count after the start period, or once a check has succeeded; `retries` of them in a row are the end of it. */
  async #watch({ intervalMs, retries, startPeriodMs, ...check }: NonNullable<ContainerPlan['health']>): Promise<void> {
    const { signal } = this.#isOver;
    const { scales } = this.#start;
    const countsFromMs = performance.now() + startPeriodMs * scales.patienceScale;
    const failures = new FailureCount(retries, intervalMs, scales);
    while (!signal.aborted) {
      await sleep(intervalMs * scales.timeScale, undefined, { signal }).catch(() => {}); // it has ended: seen below
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
