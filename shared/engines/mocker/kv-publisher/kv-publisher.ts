import { Packr } from 'msgpackr';
import type { Publisher, Router } from 'zeromq';
import type { Clock } from '../../../clock/index.ts';
import { reasonOf } from '../../../errors/index.ts';
import type { WireEvent } from './engine-journal.ts';

export interface KvPublisherOptions {
  readonly dpRank: number;
  /** Address to listen on. */
  readonly host: string;
  /** Of this rank; 0 = any. */
  readonly port: number;
  /** Of this rank; 0 = any. @default nothing is replayed */
  readonly replayPort?: number | undefined;
  readonly clock: Clock;
}

/** Batches kept for replays, as vLLM keeps them (`buffer_steps`). */
const BATCHES_MAX = 10_000;
/** Batches beyond that until the list is cut. */
const SLACK = 1000;
const HIGH_WATER_MARK = 100_000;
const TOPIC = '';
/** Sequence number that ends a replay: -1. */
const REPLAY_END = Buffer.alloc(8, 0xff);

/**
 * Publishes the cache changes of one rank as vLLM does: a PUB socket for `[topic, sequence, batch]`, one batch a pass, and a
 * ROUTER that answers `[start]` with every batch kept since then and an end mark.
 */
export class KvPublisher {
  readonly #options: KvPublisherOptions;
  // Maps, not msgpackr's own records, which no other reader knows.
  readonly #packr = new Packr({ useRecords: false });
  #publisher: Publisher | undefined;
  #router: Router | undefined;
  /** Batches from `#first` on. */
  #batches: Buffer[] = [];
  #first = 0;
  #sending: Promise<void> = Promise.resolve();
  #serving: Promise<void> = Promise.resolve();

  constructor(options: KvPublisherOptions) {
    this.#options = options;
  }

  /** Where subscribers connect; undefined before `open`. */
  get endpoint(): string | undefined {
    return this.#publisher?.lastEndpoint ?? undefined;
  }

  get replayEndpoint(): string | undefined {
    return this.#router?.lastEndpoint ?? undefined;
  }

  /** Rejects when a port is in use. */
  async open(): Promise<void> {
    const { Publisher, Router } = await import('zeromq');
    const { host, port, replayPort } = this.#options;
    const ipv6 = host.includes(':');
    this.#publisher = new Publisher({ sendHighWaterMark: HIGH_WATER_MARK, linger: 0, ipv6 });
    await bind(this.#publisher, host, port);
    if (replayPort === undefined) return;
    this.#router = new Router({ linger: 0, ipv6 });
    await bind(this.#router, host, replayPort);
    this.#serving = this.#serve(this.#router);
  }

  /** Sends the events of one pass, and keeps them for replays. */
  publish(events: readonly WireEvent[]): void {
    const publisher = this.#publisher;
    if (events.length === 0 || publisher === undefined) return;
    const { clock, dpRank } = this.#options;
    const sequence = this.#first + this.#batches.length;
    const batch = this.#packr.pack([clock.wallMs() / 1000, events, dpRank]);
    this.#batches.push(batch);
    if (this.#batches.length >= BATCHES_MAX + SLACK) {
      this.#batches = this.#batches.slice(SLACK);
      this.#first += SLACK;
    }
    // A publisher drops what a slow subscriber has no room for, so that it never waits: this chain stays short.
    this.#sending = this.#sending
      .then(() => publisher.send([TOPIC, eightBytes(sequence), batch]))
      .catch(() => undefined); // closed meanwhile
  }

  async close(): Promise<void> {
    await this.#sending;
    this.#publisher?.close();
    this.#router?.close();
    await this.#serving;
  }

  /** Answers replays until the socket is closed. */
  async #serve(router: Router): Promise<void> {
    try {
      for (;;) {
        const frames = await router.receive();
        const [caller, , start] = frames;
        if (caller === undefined || frames.length !== 3 || start?.length !== 8) continue; // vLLM ignores others, too
        await this.#replay(router, caller, Number(start.readBigUInt64BE()));
      }
    } catch {
      // closed: receive() and send() have no time limit that could pass
    }
  }

  async #replay(router: Router, caller: Buffer, start: number): Promise<void> {
    for (let sequence = Math.max(start, this.#first); ; sequence++) {
      const batch = this.#batches[sequence - this.#first];
      if (batch === undefined) break;
      await router.send([caller, '', TOPIC, eightBytes(sequence), batch]);
    }
    await router.send([caller, '', '', REPLAY_END, '']);
  }
}

async function bind(socket: Publisher | Router, host: string, port: number): Promise<void> {
  const endpoint = `tcp://${host.includes(':') ? `[${host}]` : host}:${port === 0 ? '*' : port}`;
  try {
    await socket.bind(endpoint);
  } catch (error) {
    throw new Error(`KV events cannot be published on ${endpoint}: ${reasonOf(error)}`, { cause: error });
  }
}

function eightBytes(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}
