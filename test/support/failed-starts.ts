import { readdirSync } from 'node:fs';
import { sleepOn } from '../../shared/clock/clock.ts';
import { type Clock, type Random, systemClock, systemRandom, type Timer } from '../../shared/clock/index.ts';
import type { ProcessLogger } from '../../shared/telemetry/index.ts';
import { silentLogger } from '../../shared/telemetry/log/logger.ts';
import { waitUntil } from './wait-until.ts';

/** The machine's clock, which counts the timers that are armed. */
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

/** What a start is given. */
export interface StartDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ProcessLogger;
}

/** Starts a process in this one; resolves with what ends it. */
export type Start = (deps: StartDeps) => Promise<() => Promise<unknown>>;

/** What one start left behind, by the step at which it failed. */
export interface LeftBehind {
  readonly step: string;
  readonly timers: number;
  /** Files, sockets, listeners and pipes. */
  readonly descriptors: number;
}

/**
 * Fails a start at each of its steps in turn, then lets it succeed and ends it. A step is where a part asks for its log, which
 * every part does as it is opened. Returns what was left behind, which should be nothing.
 */
export async function failEachStep(start: Start): Promise<{ readonly steps: readonly string[]; left: LeftBehind[] }> {
  await (await start({ clock: systemClock, random: systemRandom, logger: silentLogger }))(); // loads code, for good
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

/** Tries a start that fails by itself; returns its error and what it left behind. */
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

/** A logger that refuses the log of one part, as long as the start goes on. */
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

/** Whether a change of the models is handed on now: what follows it is no step of the start, and may not fail. */
function isChange(): boolean {
  return /LiveModelDirectory|Routing\.follow/.test(new Error().stack ?? '');
}

/** Waits until nothing is left, a moment at most: the system closes sockets a little later than it is asked to. */
async function settled(
  count: () => readonly [timers: number, descriptors: number],
): Promise<readonly [number, number]> {
  const isOver = (): true | undefined => (count().every((left) => left <= 0) ? true : undefined);
  await waitUntil(isOver, { what: 'nothing is left', timeoutMs: 2000 }).catch(() => undefined); // the caller tells what is
  return count();
}

/** Returns how many files, sockets and pipes this process has open. */
function openDescriptors(): number {
  return readdirSync('/dev/fd').length;
}
