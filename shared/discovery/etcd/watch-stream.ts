import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Clock, Random, Timer } from '../../clock/index.ts';
import { STATUS, type WatchRequestSchema, type WatchResponse } from '../../grpc/index.ts';
import type { ReportProblem } from '../types.ts';
import { type EtcdClient, type OpenStream, STREAM } from './etcd-client.ts';
import { EtcdFailure } from './etcd-errors.ts';
import type { KeyRange } from './key-range.ts';
import type { RangeFollower } from './range-follower.ts';

type Follower = RangeFollower<unknown>;

/** One watch of the stream. */
interface Watched {
  readonly follower: Follower;
  readonly range: KeyRange<unknown>;
}

export interface WatchStreamOptions {
  readonly client: EtcdClient;
  readonly clock: Clock;
  readonly random: Random;
  /** Makes the error that listeners get. */
  readonly toError: (thrown: unknown) => Error;
  /** Called with the reason if etcd refuses a watch. Followers then only catch up now and then. */
  readonly report: ReportProblem;
}

/** Pauses before a broken stream is opened again: the first is short, and each further one twice as long. */
const FIRST_PAUSE_MS = 100;
const PAUSE_MS_MAX = 3000;

/**
 * The stream on which a process hears the changes of all ranges that it follows. If it breaks, or a watch on it ends,
 * each follower first catches up by itself and then hears what comes after, so it does not matter what was missed: a
 * compacted history, too. Followers learn of an outage when catching up has failed as well.
 *
 *     idle --add--> opening --opened--> open --broken--> pausing --pause over--> opening
 */
export class WatchStream {
  readonly #options: WatchStreamOptions;
  readonly #followers = new Set<Follower>();
  readonly #watched = new Map<bigint, Watched>();
  readonly #closing = new AbortController();
  #stream: OpenStream<MessageInitShape<typeof WatchRequestSchema>> | undefined;
  #isOpening = false;
  #pause: Timer | undefined;
  #failures = 0;
  #nextId = 1n;

  constructor(options: WatchStreamOptions) {
    this.#options = options;
  }

  /** Followers, each with its own ranges. */
  get followers(): Iterable<Follower> {
    return this.#followers;
  }

  /** Lets `follower` hear all changes until it is deleted. If it shows nothing yet, it soon does. */
  add(follower: Follower): void {
    this.#followers.add(follower);
    if (this.#stream !== undefined) this.#start(follower);
    else if (!this.#isOpening && this.#pause === undefined) void this.#open(); // never rejects
  }

  delete(follower: Follower): void {
    if (!this.#followers.delete(follower)) return;
    this.#cancelOf(follower);
    if (this.#followers.size === 0) this.#drop();
  }

  close(): void {
    this.#closing.abort(new Error('the discovery handle was closed'));
    this.#followers.clear();
    this.#drop();
  }

  /** Opens the stream, then lets each follower catch up and creates its watches. */
  async #open(): Promise<void> {
    const { client } = this.#options;
    const { signal } = this.#closing;
    this.#isOpening = true;
    this.#pause = undefined;
    try {
      // First the reading: it finds a member that answers.
      await Promise.all([...this.#followers].map((follower) => follower.catchUp(signal)));
      if (this.#followers.size === 0) return;
      const stream = await client.open(
        STREAM.watch,
        (response) => this.#hear(response),
        () => this.#broken(),
        signal,
      );
      if (signal.aborted) return stream.cancel();
      this.#stream = stream;
      for (const follower of this.#followers) this.#start(follower);
    } catch (thrown) {
      if (signal.aborted) return;
      const error = this.#options.toError(thrown);
      for (const follower of this.#followers) follower.fail(error);
      this.#pauseThenOpen();
    } finally {
      this.#isOpening = false;
    }
  }

  #start(follower: Follower): void {
    if (follower.isShown) this.#create(follower);
    else void this.#watchAgain(follower); // never rejects
  }

  #create(follower: Follower): void {
    for (const range of follower.ranges) {
      const watchId = this.#nextId++;
      this.#watched.set(watchId, { follower, range });
      const value = { key: range.start, rangeEnd: range.end, startRevision: range.nextRevision, watchId };
      this.#stream?.send({ requestUnion: { case: 'createRequest', value } });
    }
  }

  #hear({ watchId, canceled, created, cancelReason, events }: WatchResponse): void {
    if (created && !canceled) this.#failures = 0;
    const watched = this.#watched.get(watchId);
    if (canceled) {
      this.#watched.delete(watchId);
      if (watched !== undefined) void this.#watchAgain(watched.follower);
      // A refusal names no watch.
      else if (created) this.#refused(cancelReason);
      return;
    }
    if (watched !== undefined && events.length > 0) watched.follower.apply(watched.range, events);
  }

  /**
   * Goes on after etcd has ended a watch, because revisions that it had to tell are compacted away. Never rejects.
   */
  async #watchAgain(follower: Follower): Promise<void> {
    this.#cancelOf(follower);
    try {
      await follower.catchUp(this.#closing.signal);
      if (this.#stream !== undefined && this.#followers.has(follower)) this.#create(follower);
    } catch {
      this.#broken();
    }
  }

  #cancelOf(follower: Follower): void {
    for (const [watchId, watched] of this.#watched) {
      if (watched.follower !== follower) continue;
      this.#watched.delete(watchId);
      this.#stream?.send({ requestUnion: { case: 'cancelRequest', value: { watchId } } });
    }
  }

  #refused(reason: string): void {
    const { report, toError } = this.#options;
    report(toError(new EtcdFailure(STATUS.UNKNOWN, reason || 'etcd refuses the watch')));
    this.#broken();
  }

  /** Opens the stream again soon. What is known stays, and followers do not learn of it yet. */
  #broken(): void {
    if (this.#isOpening) return; // all followers catch up there
    this.#drop();
    if (!this.#closing.signal.aborted && this.#followers.size > 0) this.#pauseThenOpen();
  }

  #drop(): void {
    this.#stream?.cancel();
    this.#stream = undefined;
    this.#watched.clear();
    this.#pause?.cancel();
    this.#pause = undefined;
  }

  #pauseThenOpen(): void {
    const { clock, random } = this.#options;
    const longestMs = Math.min(PAUSE_MS_MAX, FIRST_PAUSE_MS * 2 ** this.#failures++);
    // Any part of it: a member that ends takes all its clients with it, and they must not come back together.
    this.#pause = clock.after(longestMs * (0.5 + random.next() / 2), () => void this.#open());
  }
}
