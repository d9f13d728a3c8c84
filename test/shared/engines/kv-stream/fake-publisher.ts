import { pack } from 'msgpackr';
import { Publisher, Router } from 'zeromq';

export interface FakeBatch {
  readonly events: readonly unknown[];
  readonly timestampSecs?: number;
}

/** Publishes an engine's KV events by real sockets. An event that is lost on the way is still in its replay. */
export class FakePublisher {
  readonly #publisher = new Publisher({ linger: 0 });
  readonly #router = new Router({ linger: 0 });
  readonly #topic: string;
  #sequence = 0;
  #clock = 0;
  #buffer: (readonly [number, Buffer])[] = [];
  /** Requests for a replay, each the number that it started at. */
  readonly asked: number[] = [];
  /** Whether a replay is answered. */
  answers = true;
  /** Promise that a replay's answer waits for. A question settles the answer's contents before that. */
  held: Promise<void> | undefined;
  /** vLLM from 0.28 sends the topic along. */
  repliesWithTopic = true;
  endpoint = '';
  replayEndpoint = '';

  constructor(topic = 'kv-events') {
    this.#topic = topic;
  }

  async open(): Promise<this> {
    await this.#publisher.bind('tcp://127.0.0.1:0');
    await this.#router.bind('tcp://127.0.0.1:0');
    this.endpoint = this.#publisher.lastEndpoint!;
    this.replayEndpoint = this.#router.lastEndpoint!;
    void this.#serve();
    return this;
  }

  /** Numbers a batch; `lost` keeps it from the subscribers. */
  async publish(events: readonly unknown[], { lost = false } = {}): Promise<number> {
    const sequence = this.#sequence++;
    const payload = pack([++this.#clock, events, 0]);
    this.#buffer.push([sequence, payload]);
    if (!lost) await this.#publisher.send([this.#topic, eight(sequence), payload]);
    return sequence;
  }

  async send(frames: (string | Buffer)[]): Promise<void> {
    await this.#publisher.send(frames);
  }

  /** As the same ports served by a new process: numbers start over, nothing is remembered. */
  restart(): void {
    this.#sequence = 0;
    this.#buffer = [];
  }

  /** Forgets the oldest batches. */
  forget(count: number): void {
    this.#buffer = this.#buffer.slice(count);
  }

  close(): void {
    this.#publisher.close();
    this.#router.close();
  }

  async #serve(): Promise<void> {
    try {
      for (;;) {
        const [identity, , start] = await this.#router.receive();
        const from = Number(start!.readBigUInt64BE());
        this.asked.push(from);
        if (!this.answers) continue;
        const head = this.repliesWithTopic ? [identity!, '', this.#topic] : [identity!, ''];
        const kept = [...this.#buffer];
        await this.held;
        for (const [sequence, payload] of kept) {
          if (sequence >= from) await this.#router.send([...head, eight(sequence), payload]);
        }
        await this.#router.send([
          ...head.slice(0, 2),
          ...(this.repliesWithTopic ? [''] : []),
          Buffer.alloc(8, 0xff),
          '',
        ]);
      }
    } catch {
      // closed
    }
  }
}

function eight(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}
