import type { Clock, Random } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { ReportProblem } from '../types.ts';
import type { KubeClient, OpenWatch } from './kube-client.ts';
import { failureOf, KubeFailure, NO_ANSWER } from './kube-errors.ts';
import { metadataOf } from './objects.ts';

/** Objects to follow. */
export interface FollowedObjects {
  /** Path of their list. */
  readonly path: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** Receives what a reflector reads. */
export interface ReflectorListener {
  /** Called with all objects after each whole reading. */
  show(objects: readonly UnknownRecord[]): void;
  /** Called with a new, changed or removed object. */
  change(object: UnknownRecord, isGone: boolean): void;
  /** Called when the objects cannot be read, each time. What is known stays. */
  fail(thrown: unknown): void;
  /** Called after each reading. */
  succeed(): void;
}

export interface ReflectorOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly objects: FollowedObjects;
  readonly listener: ReflectorListener;
  /** Called once if the server refuses to let the objects be read or watched. */
  readonly report: ReportProblem;
  /** Makes the error of a report. */
  readonly toError: (thrown: unknown) => Error;
}

/** Objects of one page of a list. */
const PAGE_OBJECTS = 500;
/** Attempts to read a list whose first page is forgotten before the last one is read. */
const LISTINGS_MAX = 3;
/** Time after which the server ends a watch; up to as much again is added, so that a fleet does not ask together. */
const WATCH_SECS = 300;
/**
 * Time for which a watch may be silent. The server sends a bookmark about once a minute. So after a longer silence the
 * connection is dead, or the store has lost its data and has yet to reach the version of the watch.
 */
const SILENCE_MS_MAX = 150_000;
/** Pauses before the next attempt: the first is short, and each further one twice as long. */
const FIRST_PAUSE_MS = 100;
const PAUSE_MS_MAX = 5000;
/** A watch that ends sooner counts as a failure, or a faulty server would be asked without a pause. */
const WATCH_MS_MIN = 1000;

/**
 * Follows all objects of one kind that selectors choose. It reads them once, and then hears each change on a watch.
 *
 *     reading --read--> watching --ended--> watching
 *        ^                 |
 *        +-- changes lost, or the server was away
 *
 * A watch that ends goes on from the version that it had reached, which costs no reading. Everything is read again if
 * the server no longer has the changes since then, or if the watch fell silent. `catchUp` reads at any time; changes of
 * a watch that are older than a reading are ignored.
 */
export class Reflector {
  readonly #options: ReflectorOptions;
  readonly #closing = new AbortController();
  /** Version of the store up to which everything is shown; `undefined` before the first reading. */
  #version: string | undefined;
  /** Time at which the last whole reading began. */
  #readMs = Number.NEGATIVE_INFINITY;
  #reading: { readonly beganMs: number; readonly done: Promise<void> } | undefined;
  #isStarted = false;
  #mustRead = true;
  #watch: OpenWatch | undefined;
  /** Ends the wait for the open watch. */
  #endWatch: ((failure?: Error) => void) | undefined;
  #failures = 0;
  #isRefusalTold = false;

  constructor(options: ReflectorOptions) {
    this.#options = options;
  }

  /** Whether everything was read at least once. */
  get isShown(): boolean {
    return this.#version !== undefined;
  }

  /** Whether a watch is open, so that changes are heard at once. */
  get isWatching(): boolean {
    return this.#watch !== undefined;
  }

  /** Time since the last whole reading began, in milliseconds. */
  get ageMs(): number {
    return this.#options.clock.nowMs() - this.#readMs;
  }

  /** Follows the objects until `close`. Idempotent. */
  start(): void {
    if (this.#isStarted || this.#closing.signal.aborted) return;
    this.#isStarted = true;
    this.#mustRead = !this.isShown;
    void this.#run(this.#closing.signal); // never rejects
  }

  /**
   * Shows everything that was written before the call. Callers at the same time share a reading.
   * @throws KubeFailure, or the reason of the signal
   */
  async catchUp(signal: AbortSignal): Promise<void> {
    const calledMs = this.#options.clock.nowMs();
    while (this.#readMs < calledMs) {
      signal.throwIfAborted();
      this.#closing.signal.throwIfAborted();
      const reading = this.#reading ?? this.#begin();
      const done = untilAborted(reading.done, signal);
      if (reading.beganMs >= calledMs) return done;
      await done.catch(() => signal.throwIfAborted()); // an earlier one, whose callers get its failure
    }
  }

  /** Reads again as soon as possible, because another reading has failed. */
  readSoon(): void {
    if (!this.#isStarted) return;
    this.#mustRead = true;
    this.#endWatch?.();
  }

  close(): void {
    this.#closing.abort(new Error('the watch was closed'));
    this.#endWatch?.();
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, random, listener } = this.#options;
    while (!signal.aborted) {
      try {
        if (this.#mustRead) await this.catchUp(signal);
        this.#mustRead = false;
        await this.#watchOnce(signal);
      } catch (thrown) {
        if (signal.aborted) return;
        this.#note(thrown);
        if (this.#mustRead) listener.fail(thrown);
        // A watch that broke goes on where it was, if it can at the next attempt.
        this.#mustRead ||= this.#failures > 0 || (thrown instanceof KubeFailure && thrown.isVersionGone);
        const longestMs = Math.min(PAUSE_MS_MAX, FIRST_PAUSE_MS * 2 ** Math.min(this.#failures++, 10));
        // Any part of it: a server that ends takes all its clients with it, and they must not come back together.
        await clock.sleep(longestMs * (0.5 + random.next() / 2), signal).catch(() => {}); // the loop ends
      }
    }
  }

  #note(thrown: unknown): void {
    if (this.#isRefusalTold || !(thrown instanceof KubeFailure && thrown.isForbidden)) return;
    this.#isRefusalTold = true;
    this.#options.report(this.#options.toError(thrown));
  }

  #begin() {
    const beganMs = this.#options.clock.nowMs();
    const done = this.#read(beganMs, this.#closing.signal).finally(() => {
      this.#reading = undefined;
    });
    this.#reading = { beganMs, done };
    return this.#reading;
  }

  async #read(beganMs: number, signal: AbortSignal): Promise<void> {
    const { objects, version } = await this.#list(signal);
    if (signal.aborted) return;
    const isBack = this.#version !== undefined && isOlder(version, this.#version);
    this.#version = version;
    this.#readMs = beganMs;
    this.#options.listener.show(objects);
    this.#options.listener.succeed();
    // The store was made anew or restored: the open watch waits for a version that is long ahead.
    if (isBack) this.#endWatch?.();
  }

  async #list(signal: AbortSignal): Promise<{ readonly objects: UnknownRecord[]; readonly version: string }> {
    for (let attempts = 1; ; attempts++) {
      try {
        return await this.#listOnce(signal);
      } catch (thrown) {
        if (attempts === LISTINGS_MAX || !(thrown instanceof KubeFailure && thrown.isVersionGone)) throw thrown;
      }
    }
  }

  async #listOnce(signal: AbortSignal) {
    const objects: UnknownRecord[] = [];
    for (let token: string | undefined; ; ) {
      const query = {
        ...this.#selectors,
        limit: String(PAGE_OBJECTS),
        ...(token !== undefined && { continue: token }),
      };
      const page = await this.#options.client.ask({ path: this.#options.objects.path, query }, signal);
      if (Array.isArray(page.items)) for (const item of page.items) objects.push(asRecord(item) ?? {});
      const { resourceVersion, continue: next } = metadataOf(page);
      if (typeof next === 'string' && next !== '') token = next;
      else return { objects, version: typeof resourceVersion === 'string' ? resourceVersion : '' };
    }
  }

  get #selectors(): Readonly<Record<string, string>> {
    const { labelSelector, fieldSelector } = this.#options.objects;
    return {
      ...(labelSelector !== undefined && { labelSelector }),
      ...(fieldSelector !== undefined && { fieldSelector }),
    };
  }

  /** Opens a watch and hears it until it ends. @throws if it cannot be opened, broke at once, or lost changes */
  async #watchOnce(signal: AbortSignal): Promise<void> {
    const { client, clock, random, objects } = this.#options;
    const openedMs = clock.nowMs();
    const query = {
      ...this.#selectors,
      watch: '1',
      resourceVersion: this.#version ?? '',
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(Math.round(WATCH_SECS * (1 + random.next()))),
    };
    let silence = { cancel: () => {} };
    try {
      await new Promise<void>((resolve, reject) => {
        const end = (failure?: Error): void => (failure === undefined ? resolve() : reject(failure));
        const expect = (): void => {
          silence.cancel();
          silence = clock.after(SILENCE_MS_MAX, () => {
            this.#mustRead = true; // another watch from the same version may be as silent
            end();
          });
        };
        const hear = (event: UnknownRecord): void => {
          expect();
          this.#hear(event);
        };
        this.#endWatch = end;
        client.watch({ path: objects.path, query }, hear, end, signal).then((watch) => {
          if (this.#endWatch !== end || signal.aborted) {
            watch.close(); // it opened after its wait had ended, and another one may be open
            return end();
          }
          this.#watch = watch;
          expect();
        }, reject);
      });
    } finally {
      silence.cancel();
      this.#endWatch = undefined;
      this.#watch?.close();
      this.#watch = undefined;
      if (clock.nowMs() - openedMs >= WATCH_MS_MIN) this.#failures = 0;
    }
    const isShort = clock.nowMs() - openedMs < WATCH_MS_MIN;
    if (isShort && !signal.aborted) throw new KubeFailure(NO_ANSWER, 'the server ended a watch at once');
  }

  #hear({ type, object }: UnknownRecord): void {
    const record = asRecord(object) ?? {};
    if (type === 'ERROR') this.#endWatch?.(failureOf(NO_ANSWER, record));
    const { resourceVersion } = metadataOf(record);
    if (type === 'ERROR' || typeof resourceVersion !== 'string') return;
    if (this.#version !== undefined && !isOlder(this.#version, resourceVersion)) return; // a reading has shown it
    this.#version = resourceVersion;
    if (type !== 'BOOKMARK') this.#options.listener.change(record, type === 'DELETED');
  }
}

/** Whether `one` is an earlier version of the store than `other`; versions are numbers that count all changes. */
function isOlder(one: string, other: string): boolean {
  return Number(one) < Number(other);
}
