import { readdirSync } from 'node:fs';
import { sleepOn } from '../../shared/clock/clock.ts';
import { type Clock, type Random, systemClock, systemRandom, type Timer } from '../../shared/clock/index.ts';
import type { ProcessLogger } from '../../shared/telemetry/index.ts';
import { silentLogger } from '../../shared/telemetry/log/logger.ts';
import { waitUntil } from './wait-until.ts';

/** The machine's clock, which also counts the armed timers. */
export class CountingClock implements Clock {
  readonly #armed = new Set<Timer>();

  get armed(): number {
    return this.#armed.size;
  }

  nowMs(): number {
    return systemClock.nowMs();
  }

  wallMs(): number {
    return systemClock.wallMs();
  }

  after(delayMs: number, callback: () => void): Timer {
    const timer = this.#keep(
      systemClock.after(delayMs, () => {
        this.#armed.delete(timer);
        callback();
      }),
    );
    return timer;
  }

  every(periodMs: number, callback: () => void): Timer {
    return this.#keep(systemClock.every(periodMs, callback));
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    return sleepOn(this, delayMs, signal);
  }

  #keep(armed: Timer): Timer {
    const timer = {
      cancel: (): void => {
        this.#armed.delete(timer);
        armed.cancel();
      },
    };
    this.#armed.add(timer);
    return timer;
  }
}

/** Dependencies of a start. */
export interface StartDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ProcessLogger;
}

/** Starts a process within this one. Resolves with a function that ends it. */
export type Start = (deps: StartDeps) => Promise<() => Promise<unknown>>;

/** Resources that one start left behind, with the step at which it failed. */
export interface LeftBehind {
  readonly step: string;
  readonly timers: number;
  /** Number of open files, sockets, listeners and pipes. */
  readonly descriptors: number;
}

/**
 * Fails a start at each of its steps in turn, then lets it succeed and ends it. A step is a request of a part for its
 * log, which every part makes when it opens. Returns the resources left behind, which should be none.
 */
export async function failEachStep(start: Start): Promise<{ readonly steps: readonly string[]; left: LeftBehind[] }> {
  // loads code, which stays loaded
  await (await start({ clock: systemClock, random: systemRandom, logger: silentLogger }))();
  const before = openDescriptors();
  const steps: string[] = [];
  const left: LeftBehind[] = [];
  for (let at = 0; at <= steps.length; at++) {
    const clock = new CountingClock();
    const { logger, asked, startIsOver } = refusingLogger(at);
    const starting = start({ clock, random: systemRandom, logger }).finally(startIsOver);
    const failure = await starting
      .then((end) => end())
      .then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
    const refused = asked[at];
    const step = refused ?? 'none';
    if (refused !== undefined) steps.push(step);
    if (failure !== undefined && !(failure instanceof Refusal)) throw failure;
    const [timers, descriptors] = await settled(() => [clock.armed, openDescriptors() - before]);
    if (timers > 0 || descriptors > 0) left.push({ step, timers, descriptors });
  }
  return { steps, left };
}

/** Runs a start that fails by itself. Returns its error and the resources left behind. */
export async function failStart(
  start: Start,
): Promise<{ readonly error: string; readonly timers: number; readonly descriptors: number }> {
  const before = openDescriptors();
  const clock = new CountingClock();
  const error = await start({ clock, random: systemRandom, logger: silentLogger }).then(
    async (end) => {
      await end();
      return 'none';
    },
    (thrown: unknown) => String(thrown),
  );
  const [timers, descriptors] = await settled(() => [clock.armed, openDescriptors() - before]);
  return { error, timers, descriptors };
}

class Refusal extends Error {}

/** Returns a logger that refuses the log of one part until the start ends. */
function refusingLogger(at: number) {
  const asked: string[] = [];
  let isOver = false;
  const logger: ProcessLogger = {
    ...silentLogger,
    for: (target) => {
      if (isOver || isChange()) return silentLogger.for(target);
      asked.push(target);
      if (asked.length === at + 1) throw new Refusal(`no log for ${target}`);
      return silentLogger.for(target);
    },
  };
  const startIsOver = (): void => {
    isOver = true;
  };
  return { logger, asked, startIsOver };
}

/**
 * Whether a change of the models is being passed on. The work after it is not a step of the start, and must not fail.
 */
function isChange(): boolean {
  return /LiveModelDirectory|Routing\.follow/.test(new Error().stack ?? '');
}

/** Waits for a moment until nothing is left, because the system closes sockets a little later than asked. */
async function settled(
  count: () => readonly [timers: number, descriptors: number],
): Promise<readonly [number, number]> {
  const isOver = (): true | undefined => (count().every((left) => left <= 0) ? true : undefined);
  // the caller reports what is left
  await waitUntil(isOver, { what: 'nothing is left', timeoutMs: 2000 }).catch(() => undefined);
  return count();
}

/** Returns how many files, sockets and pipes this process has open. */
function openDescriptors(): number {
  return readdirSync('/dev/fd').length;
}
