import { Packr } from 'msgpackr';
import type { Publisher, Router } from 'zeromq';
import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { BlockChange } from './block-pool.ts';
import { TokenNames } from './sequence.ts';

interface KvPublisherOptions {
  readonly dpRank: number;
  /** Address to listen on. */
  readonly host: string;
  /** Port of this rank; 0 = any. */
  readonly port: number;
  /** Replay port of this rank; 0 = any. @default no replays */
  readonly replayPort?: number | undefined;
  readonly blockSizeTokens: number;
  readonly clock: Clock;
}

/** Number of batches kept for replays, as in vLLM (`buffer_steps`). */
const BATCHES_MAX = 10_000;
/** Number of batches beyond that before the list is cut. */
const SLACK = 1000;
const HIGH_WATER_MARK = 100_000;
const TOPIC = '';
/** Sequence number that ends a replay: -1. */
const REPLAY_END = Buffer.alloc(8, 0xff);

/**
 * Publishes the cache changes of one rank as vLLM does. A PUB socket sends `[topic, sequence, batch]`, one batch for
 * each pass. A ROUTER socket answers `[start]` with every batch kept since then and an end mark.
 */
export class KvPublisher {
  readonly #options: KvPublisherOptions;
  // Writes maps, because no other reader knows msgpackr's own records.
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

  /** Opens the sockets. Rejects when a port is in use. */
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

  /** Sends the changes of one pass, at least one, and keeps them for replays. */
  publish(changes: readonly BlockChange[]): void {
    const publisher = this.#publisher;
    if (publisher === undefined) return;
    const { clock, dpRank, blockSizeTokens } = this.#options;
    const sequence = this.#first + this.#batches.length;
    const batch = this.#packr.pack([clock.wallMs() / 1000, toWireEvents(changes, blockSizeTokens), dpRank]);
    this.#batches.push(batch);
    if (this.#batches.length >= BATCHES_MAX + SLACK) {
      this.#batches = this.#batches.slice(SLACK);
      this.#first += SLACK;
    }
    // A publisher drops messages that a slow subscriber has no room for and never waits, so this chain stays short.
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
        // vLLM ignores other messages too
        if (caller === undefined || frames.length !== 3 || start?.length !== 8) continue;
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

/** Converts changes to the format of vLLM 0.25 and later, in which removals come one by one. */
function toWireEvents(changes: readonly BlockChange[], blockSizeTokens: number): readonly object[] {
  return changes.flatMap((change): object | object[] => {
    if (change.kind === 'cleared') return { type: 'AllBlocksCleared' };
    if (change.kind === 'stored') return toStored(change, blockSizeTokens);
    return hashesOf(change.hashes, 0, change.hashes.length / 2).map((hash) => {
      return { type: 'BlockRemoved', block_hashes: [hash], medium: 'GPU', group_idx: 0 };
    });
  });
}

function toStored({ names, start, end }: Extract<BlockChange, { kind: 'stored' }>, blockSizeTokens: number): object {
  if (!(names instanceof TokenNames)) throw new TypeError('only blocks of known tokens can be published');
  return {
    type: 'BlockStored',
    block_hashes: hashesOf(names.hashes, start, end),
    parent_block_hash: hashesOf(names.hashes, start - 1, start)[0] ?? null,
    token_ids: [...names.tokens.subarray(start * blockSizeTokens, end * blockSizeTokens)],
    block_size: blockSizeTokens,
    lora_id: null,
    medium: 'GPU',
    lora_name: names.scope.loraName ?? null,
    extra_keys: Array.from({ length: end - start }, (_, at) => extraKeys(names, start + at)),
    group_idx: 0,
    kv_cache_spec_kind: 'full_attention',
  };
}

/** Returns the extra keys of a block: the adapter's name on every block, the salt only on the first one. */
function extraKeys({ scope: { loraName, cacheSalt } }: TokenNames, index: number): readonly string[] | null {
  const keys = [loraName, index === 0 ? cacheSalt : undefined].filter((key) => key !== undefined && key !== '');
  return keys.length === 0 ? null : (keys as readonly string[]);
}

/** Returns the hashes `start .. end` of pairs of u32 halves. */
function hashesOf(pairs: ArrayLike<number>, start: number, end: number): bigint[] {
  const hashes: bigint[] = [];
  for (let at = Math.max(0, start); at < end; at++) {
    hashes.push((BigInt(pairs[2 * at + 1]!) << 32n) | BigInt(pairs[2 * at]!));
  }
  return hashes;
}
