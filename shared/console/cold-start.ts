import type { StartReading } from '../planner/index.ts';
import { START_PHASES, type StartPhase } from '../protocol/index.ts';
import type { ConsoleColdStart } from './wire/fleet.ts';

type Phase = ConsoleColdStart['phases'][number];
type Host = StartReading['hosts'][number];

/** Time before the first request at which a machine may have begun to start for it, in milliseconds. */
const AHEAD_MS_MAX = 900_000;

/**
 * The wait of a model's requests for a first worker, in phases. Each phase ends where the next one begins; the last one
 * ends with the worker, or when no request waits any more. Times are Unix milliseconds.
 */
export class ColdStart {
  readonly model: string;
  readonly #sinceMs: number;
  /** Requests that wait now, and the most that waited at once. */
  #requests = 0;
  #most = 0;
  #readyMs: number | undefined;
  #endedMs: number | undefined;
  #decidedMs: number | undefined;
  #note: string | undefined;
  #isPlanned = false;
  /** Phases that the machine which is furthest has reached; at most one of each. */
  readonly #reached: { readonly phase: StartPhase; readonly fromMs: number }[] = [];

  constructor(model: string, nowMs: number) {
    this.model = model;
    this.#sinceMs = nowMs;
  }

  /** Time for which requests have waited, in milliseconds. */
  lastedMs(nowMs: number): number {
    return (this.#endedMs ?? nowMs) - this.#sinceMs;
  }

  /** Whether it lasts, or has ended after a Unix time. */
  lastedUntil(sinceMs: number): boolean {
    return this.#endedMs === undefined || this.#endedMs > sinceMs;
  }

  waiting(requests: number): void {
    this.#requests = requests;
    this.#most = Math.max(this.#most, requests);
  }

  /** The model has a worker. */
  ready(nowMs: number): void {
    this.#readyMs ??= nowMs;
  }

  /** No request waits any more. */
  ended(nowMs: number): void {
    this.#endedMs = nowMs;
  }

  /** Takes what a planner knows; undefined = no planner plans for the model. */
  read(reading: StartReading | undefined): void {
    this.#note = reading?.problem;
    if (reading === undefined) return;
    this.#isPlanned = true;
    this.#decidedMs ??= reading.decidedAtMs;
    const furthest = reading.hosts
      .filter((host) => this.#startsForIt(host))
      .reduce<Host | undefined>((best, host) => (best === undefined || isFurther(host, best) ? host : best), undefined);
    if (furthest === undefined) return;
    const last = this.#reached.at(-1);
    if (last !== undefined && orderOf(furthest.phase) <= orderOf(last.phase)) return;
    this.#reached.push({ phase: furthest.phase, fromMs: furthest.sinceMs });
  }

  /** Takes the reason why nothing could be read. */
  failed(reason: string): void {
    this.#note = `The planner's state cannot be read: ${reason}`;
  }

  row(): ConsoleColdStart {
    return {
      model: this.model,
      requests: this.#endedMs === undefined ? this.#requests : this.#most,
      since_ms: this.#sinceMs,
      ready_ms: this.#readyMs ?? null,
      ended_ms: this.#endedMs ?? null,
      phases: this.#phases(),
      note: this.#note ?? (this.#isPlanned ? null : 'No planner tells this frontend how far the start is.'),
    };
  }

  /** Whether the machine may be the one that the requests wait for: one that serves stays in its last phase. */
  #startsForIt({ phase, sinceMs }: Host): boolean {
    return sinceMs >= (phase === 'register' ? this.#sinceMs : this.#sinceMs - AHEAD_MS_MAX);
  }

  #phases(): Phase[] {
    const marks: { readonly name: Phase['name']; readonly fromMs: number }[] = [
      { name: this.#isPlanned ? 'decide' : 'wait', fromMs: this.#sinceMs },
    ];
    const endMs = this.#readyMs ?? this.#endedMs;
    const add = (name: Phase['name'], fromMs: number): void => {
      const notBefore = Math.max(fromMs, marks.at(-1)!.fromMs); // there is always one
      marks.push({ name, fromMs: Math.min(notBefore, endMs ?? notBefore) });
    };
    if (this.#decidedMs !== undefined) add('launch', this.#decidedMs);
    for (const { phase, fromMs } of this.#reached) add(phase, fromMs);
    return marks
      .map(({ name, fromMs }, at) => ({ name, from_ms: fromMs, to_ms: marks[at + 1]?.fromMs ?? endMs ?? null }))
      .filter(({ from_ms: fromMs, to_ms: toMs }) => toMs !== fromMs);
  }
}

function orderOf(phase: StartPhase): number {
  return START_PHASES.indexOf(phase);
}

function isFurther(host: Host, other: Host): boolean {
  const [one, two] = [orderOf(host.phase), orderOf(other.phase)];
  return one === two ? host.sinceMs < other.sinceMs : one > two;
}
