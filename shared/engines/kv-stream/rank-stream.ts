import type { Dealer, Subscriber } from 'zeromq';
import { loadCode, reasonOf } from '../../errors/index.ts';
import { decodeEventBatch, type EventBatch } from './engine-events.ts';
import type { RankSource } from './event-sources.ts';

/**
 * Relation of a batch with a sequence number to those before it: `next` follows them, `gap` leaves some out,
 * `duplicate` was seen, `restart` comes from a new process of the engine.
 */
type Verdict = 'next' | 'gap' | 'duplicate' | 'restart';

interface RankStreamOptions {
  readonly source: RankSource;
  /** Longest wait for one answer of a replay. Default 2000. */
  readonly replayTimeoutMs?: number | undefined;
  /** Takes the batches in order, each once. */
  onBatch(batch: EventBatch): void;
  /** Called when the engine is a new process: its earlier cache is gone. Its first batches follow. */
  onRestart(): void;
  /** Called for batches that are lost for good. */
  onLost(batches: number): void;
  /** Called for a message that cannot be read, or a replay that failed. */
  onProblem(problem: unknown): void;
}

/** Number of messages that may wait in ZeroMQ, and of live ones that may wait while a replay runs. */
const HIGH_WATER_MARK = 100_000;
const WAITING_MAX = 10_000;
/** Size limit of a message's frame. The events of a long prompt's step come in one. */
const MESSAGE_BYTES_MAX = 8 << 20;
/** Sequence number that ends a replay: -1. */
const REPLAY_END = Buffer.alloc(8, 0xff);

interface Message {
  readonly sequence: number;
  readonly batch: EventBatch;
}

/**
 * Follows the KV events of one rank of an engine: a SUB socket, and a DEALER that requests missed batches.
 *
 * | Event | following | replaying |
 * |---|---|---|
 * | next in order | passed on | kept |
 * | gap | kept; request the missing ones -> replaying | kept |
 * | copy | ignored | ignored |
 * | batch of a new process | `onRestart`, then as a first one | kept |
 * | `restart()` | `onRestart`; request everything -> replaying | the same, once the replay is over |
 * | replay ends | - | kept batches are judged in order; a gap newer than the answer is requested in turn -> following |
 */
export class RankStream {
  readonly #options: RankStreamOptions;
  readonly #gate = new SequenceGate();
  readonly #stopping = new AbortController();
  #subscriber: Subscriber | undefined;
  #waiting: Message[] = [];
  #replaying: Promise<void> | undefined;
  #mustRestart = false;
  #reading: Promise<void> = Promise.resolve();

  constructor(options: RankStreamOptions) {
    this.#options = options;
  }

  /** Subscribes. Rejects when the endpoint cannot be opened. */
  async open(): Promise<void> {
    const { endpoint, binds, topic } = this.#options.source;
    const { Subscriber } = await loadCode('ZeroMQ', () => import('zeromq'));
    const subscriber = new Subscriber({
      receiveHighWaterMark: HIGH_WATER_MARK,
      maxMessageSize: MESSAGE_BYTES_MAX,
      linger: 0,
      ipv6: endpoint.includes('['),
    });
    this.#subscriber = subscriber;
    subscriber.subscribe(topic);
    if (binds) await subscriber.bind(endpoint);
    else subscriber.connect(endpoint);
    this.#reading = this.#read(subscriber);
  }

  /** Requests every batch that the engine still has: it ran before this process did, or came back. */
  catchUp(): void {
    this.#replay();
  }

  /** Handles a new process of the engine that is known by other means than its events. */
  restart(): void {
    if (this.#replaying !== undefined) {
      this.#mustRestart = true; // the current answer may be from either process
      return;
    }
    this.#mustRestart = false;
    this.#gate.reset();
    this.#options.onRestart();
    this.#replay();
  }

  async close(): Promise<void> {
    this.#stopping.abort(new Error('the event stream is closed'));
    this.#subscriber?.close();
    await Promise.all([this.#reading, this.#replaying]);
  }

  /** Reads until the socket is closed. */
  async #read(subscriber: Subscriber): Promise<void> {
    for (;;) {
      let frames: Buffer[];
      try {
        frames = await subscriber.receive();
      } catch (error) {
        if (!this.#stopping.signal.aborted) this.#options.onProblem(error);
        return; // closed: receive() has no time limit that could pass
      }
      const message = this.#decode(frames);
      if (message !== undefined) this.#receive(message);
    }
  }

  /** Decodes `[topic, sequence, payload]`; in an answer to a replay the last two frames count. */
  #decode(frames: readonly Buffer[]): Message | undefined {
    const [sequence, payload] = frames.slice(-2);
    try {
      if (sequence?.length !== 8 || payload === undefined) throw new RangeError(`a message of ${frames.length} frames`);
      return { sequence: Number(sequence.readBigUInt64BE()), batch: decodeEventBatch(payload) };
    } catch (problem) {
      this.#options.onProblem(problem); // its number is now missing, which causes a replay
      return undefined;
    }
  }

  #receive(message: Message): void {
    if (this.#replaying !== undefined) {
      this.#waiting.push(message);
      if (this.#waiting.length > WAITING_MAX) this.#waiting.shift(); // it appears as a gap once the replay is over
      return;
    }
    const { sequence, batch } = message;
    switch (this.#gate.judge(sequence, batch.timestampSecs)) {
      case 'next':
        this.#take(message);
        return;
      case 'duplicate':
        return;
      case 'restart':
        this.#gate.reset();
        this.#options.onRestart();
        this.#receive(message);
        return;
      case 'gap':
        this.#waiting.push(message);
        this.#replay();
    }
  }

  #take({ sequence, batch }: Message): void {
    this.#gate.take(sequence, batch.timestampSecs);
    this.#options.onBatch(batch);
  }

  #replay(): void {
    if (this.#replaying !== undefined || this.#stopping.signal.aborted) return;
    const { replayEndpoint } = this.#options.source;
    const work = replayEndpoint === undefined ? Promise.resolve() : this.#ask(replayEndpoint);
    const asked = this.#waiting.length;
    this.#replaying = work
      .then(
        () => asked,
        (problem: unknown) => {
          this.#options.onProblem(new Error(`replay failed: ${reasonOf(problem)}`));
          return Number.POSITIVE_INFINITY;
        },
      )
      .then((decided) => {
        this.#replaying = undefined;
        if (this.#mustRestart) this.restart();
        else this.#judgeWaiting(decided);
      });
  }

  /**
   * Judges the waiting batches. A gap before one of the first `decided` was already requested in vain; a later gap is
   * newer than the answer.
   */
  #judgeWaiting(decided: number): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const [at, message] of waiting.entries()) {
      const { sequence, batch } = message;
      const last = this.#gate.last;
      if (at < decided && this.#gate.judge(sequence, batch.timestampSecs) === 'gap') {
        // Before the very first batch nothing counts as lost: the engine no longer has its earlier batches.
        if (last >= 0) this.#options.onLost(sequence - last - 1);
        this.#take(message);
      } else {
        this.#receive(message);
      }
    }
  }

  /** Takes all batches after the last one that the engine still has. */
  async #ask(endpoint: string): Promise<void> {
    const { Dealer } = await loadCode('ZeroMQ', () => import('zeromq'));
    const { replayTimeoutMs = 2000 } = this.#options;
    const dealer: Dealer = new Dealer({
      linger: 0,
      maxMessageSize: MESSAGE_BYTES_MAX,
      receiveTimeout: replayTimeoutMs,
      sendTimeout: replayTimeoutMs,
    });
    const onStop = (): void => dealer.close();
    this.#stopping.signal.addEventListener('abort', onStop, { once: true });
    try {
      dealer.connect(endpoint);
      const start = Buffer.alloc(8);
      start.writeBigUInt64BE(BigInt(this.#gate.last + 1));
      await dealer.send([Buffer.alloc(0), start]);
      for (;;) {
        const frames = await dealer.receive();
        if (frames.at(-2)?.equals(REPLAY_END)) return;
        const message = this.#decode(frames);
        if (message !== undefined) this.#replayed(message);
      }
    } catch (error) {
      if (!this.#stopping.signal.aborted) throw error;
    } finally {
      this.#stopping.signal.removeEventListener('abort', onStop);
      dealer.close();
    }
  }

  #replayed(message: Message): void {
    const { sequence, batch } = message;
    const { last } = this.#gate;
    const verdict = this.#gate.judge(sequence, batch.timestampSecs);
    if (verdict === 'duplicate') return;
    if (verdict === 'restart') {
      this.#gate.reset();
      this.#options.onRestart();
    } else if (verdict === 'gap' && last >= 0) {
      this.#options.onLost(sequence - last - 1); // older than everything that the engine still has
    }
    this.#take(message);
  }
}

/**
 * Orders the batches of one publisher, which arrive live and by replay. Numbers count from 0 and start over with the
 * engine's process. A number that was seen is a copy unless its time is later than all earlier times.
 */
export class SequenceGate {
  #last = -1;
  #lastTimestampSecs = Number.NEGATIVE_INFINITY;

  /** Number of the last batch taken; -1 = none. */
  get last(): number {
    return this.#last;
  }

  judge(sequence: number, timestampSecs: number): Verdict {
    if (sequence === this.#last + 1) return 'next';
    if (sequence > this.#last) return 'gap';
    return timestampSecs > this.#lastTimestampSecs ? 'restart' : 'duplicate';
  }

  take(sequence: number, timestampSecs: number): void {
    this.#last = sequence;
    this.#lastTimestampSecs = timestampSecs;
  }

  /** Starts over for a new process of the publisher. */
  reset(): void {
    this.#last = -1;
    this.#lastTimestampSecs = Number.NEGATIVE_INFINITY;
  }
}
