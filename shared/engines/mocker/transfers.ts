import type { Clock, Timer } from '../../clock/index.ts';
import type { EngineRequest } from '../../protocol/index.ts';
import { asRecord, isRecord, type UnknownRecord } from '../../records/index.ts';
import type { HandoffCaller, HandoffDesk, HandoffListener, HandoffNetwork, HandoffRequest } from './handoffs.ts';

interface Held {
  /** Returns the blocks to the engine. */
  readonly free: () => void;
  readonly expiry: Timer;
  caller: HandoffCaller | undefined;
}

interface Waiting {
  readonly caller: HandoffCaller;
  readonly expiry: Timer;
}

/**
 * Blocks of finished prefills, kept until a decode engine has fetched them. Bounded by the cache that holds them.
 *
 * | State of a key | offer | asked | fetched, or the caller goes | release | time is up |
 * |---|---|---|---|---|---|
 * | unknown | held | refused, or waiting if it may | - | - | - |
 * | waiting | being fetched | refused | unknown | refused | refused |
 * | held | - | being fetched | - | freed | freed |
 * | being fetched | - | refused | freed | freed | freed |
 */
class HeldBlocks implements HandoffDesk {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #held = new Map<string, Held>();
  readonly #waiting = new Map<string, Waiting>();
  readonly #idle = new Set<() => void>();

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Keeps the blocks of `key`; `free` is called once. */
  offer(key: string, free: () => void): void {
    this.release(key); // a repeated id
    const expiry = this.#clock.after(this.#timeoutMs, () => this.release(key));
    const waiting = this.#waiting.get(key);
    this.#held.set(key, { free, expiry, caller: waiting?.caller });
    if (waiting === undefined) return;
    waiting.expiry.cancel();
    this.#waiting.delete(key);
    waiting.caller.ready();
  }

  asked(key: string, mayWait: boolean, caller: HandoffCaller): () => void {
    const held = this.#held.get(key);
    if (held !== undefined && held.caller === undefined) {
      held.caller = caller;
      caller.ready();
    } else if (held === undefined && mayWait && !this.#waiting.has(key)) {
      const expiry = this.#clock.after(this.#timeoutMs, () => this.refuse(key, 'the prefill did not arrive'));
      this.#waiting.set(key, { caller, expiry });
    } else {
      caller.refuse('no such blocks');
    }
    return () => this.#left(key, caller);
  }

  /** Releases the blocks of `key`, which no engine will fetch. Does nothing when there are none. */
  release(key: string): void {
    const held = this.#held.get(key);
    if (held === undefined) return;
    held.expiry.cancel();
    this.#held.delete(key);
    held.free();
    if (this.#held.size > 0) return;
    for (const tell of this.#idle) tell();
    this.#idle.clear();
  }

  /** Refuses the caller that waits for `key`: no blocks will come. */
  refuse(key: string, reason: string): void {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) return;
    waiting.expiry.cancel();
    this.#waiting.delete(key);
    waiting.caller.refuse(reason);
  }

  /** Resolves when no blocks are kept any more, at the latest after `withinMs`; frees those that remain. */
  async settle(withinMs: number): Promise<void> {
    if (this.#held.size > 0) {
      await new Promise<void>((resolve) => {
        const limit = this.#clock.after(withinMs, resolve);
        this.#idle.add(() => {
          limit.cancel();
          resolve();
        });
      });
    }
    for (const key of [...this.#held.keys()]) this.release(key);
    for (const key of [...this.#waiting.keys()]) this.refuse(key, 'the engine has stopped');
  }

  #left(key: string, caller: HandoffCaller): void {
    if (this.#held.get(key)?.caller === caller) this.release(key);
    const waiting = this.#waiting.get(key);
    if (waiting?.caller !== caller) return;
    waiting.expiry.cancel();
    this.#waiting.delete(key);
  }
}

/** Link over which blocks move. */
export interface TransferModel {
  readonly bytesPerToken: number;
  /** GB/s; 0 = no delay. */
  readonly bandwidthGbps: number;
  /** Whether only the blocks that the decode engine lacks are moved, instead of the whole prompt. */
  readonly movesMissingOnly: boolean;
}

export interface TransfersOptions extends TransferModel {
  readonly clock: Clock;
  readonly network: HandoffNetwork;
  readonly isPrefill: boolean;
  /** Port where decode engines may wait for blocks. @default any port, and only afterwards */
  readonly bootstrapPort: number | undefined;
  /** Longest time that unfetched blocks are kept, and longest wait for blocks. */
  readonly timeoutMs: number;
}

/** Time for which a stopping engine waits for decode engines to fetch their blocks. */
const SETTLE_MS = 5000;

/** Returns the time to move `tokens`. */
export function transferMs(tokens: number, { bytesPerToken, bandwidthGbps }: TransferModel): number {
  return bandwidthGbps === 0 ? 0 : ((tokens * bytesPerToken) / (bandwidthGbps * 1e9)) * 1000;
}

/** Both ends of moving blocks from a mock prefill engine to a mock decode engine. */
export class Transfers {
  readonly #options: TransfersOptions;
  readonly #held: HeldBlocks;
  readonly #fetches = new Set<() => void>(); // bounded by the requests under way
  #listener: HandoffListener | undefined;
  #nextKey = 0;

  constructor(options: TransfersOptions) {
    this.#options = options;
    this.#held = new HeldBlocks(options.clock, options.timeoutMs);
  }

  /** Opens the listener of a prefill engine. Rejects when the port is in use. */
  async open(): Promise<HandoffListener | undefined> {
    const { isPrefill, network, bootstrapPort } = this.#options;
    if (isPrefill) this.#listener = await network.listen(bootstrapPort ?? 0, this.#held);
    return this.#listener;
  }

  /** Lets decode engines fetch the blocks kept for them, for a while; then frees the rest. */
  async close(): Promise<void> {
    for (const end of [...this.#fetches]) end();
    await this.#held.settle(Math.min(SETTLE_MS, this.#options.timeoutMs));
    await this.#listener?.close();
  }

  /** Returns whether the blocks of a request must be kept when it has its token. */
  keeps({ isHealthCheck = false }: EngineRequest): boolean {
    return this.#listener !== undefined && !isHealthCheck;
  }

  /**
   * Keeps the blocks of a finished prefill until they are fetched, and returns where they are. `free` is called once.
   */
  offer(request: EngineRequest, free: () => void): unknown {
    const listener = this.#listener;
    if (listener === undefined) throw new Error('only a prefill engine keeps blocks');
    const key = roomOf(request) ?? `${request.id}#${this.#nextKey++}`;
    this.#held.offer(key, free);
    return {
      kv_transfer_params: {
        do_remote_prefill: true,
        do_remote_decode: false,
        remote_engine_id: `${listener.host}:${listener.port}`,
        remote_request_id: key,
        remote_host: listener.host,
        remote_port: listener.port,
        tp_size: 1,
      },
    };
  }

  /** Releases the blocks of the prefill of `request`, which no engine will fetch or which will not be computed. */
  release(request: EngineRequest): void {
    const key = roomOf(request) ?? remoteOf(request)?.key;
    if (key === undefined) return;
    this.#held.release(key);
    this.#held.refuse(key, 'the prefill was cancelled');
  }

  /** Returns where the blocks of a request's prompt are, if another engine has them. */
  sourceOf(request: EngineRequest): HandoffRequest | undefined {
    const { bootstrapInfo, isHealthCheck } = request;
    if (this.#options.isPrefill || isHealthCheck) return undefined;
    if (bootstrapInfo === undefined) return remoteOf(request);
    const { bootstrap_host: host, bootstrap_port: port } = bootstrapInfo;
    return { host, port, key: roomOf(request) ?? '', mayWait: true };
  }

  /**
   * Fetches the blocks of a prompt; `tokens` returns how many of its tokens must be moved once they are available.
   * Calls one of the two callbacks, on a later turn, unless the returned function is called before.
   */
  fetch(from: HandoffRequest, tokens: () => number, done: () => void, failed: (reason: string) => void): () => void {
    const { clock, network, timeoutMs } = this.#options;
    const end = (): void => {
      timer.cancel();
      this.#fetches.delete(end);
      fetching.close();
    };
    const fail = (reason: string): void => {
      end();
      failed(reason);
    };
    let timer = clock.after(timeoutMs, () => fail('the blocks did not arrive in time'));
    const arrived = (): void => {
      timer.cancel();
      timer = clock.after(transferMs(tokens(), this.#options), () => {
        end();
        done();
      });
    };
    const fetching = network.fetch(from, arrived, fail);
    this.#fetches.add(end);
    return end;
  }
}

function roomOf({ bootstrapInfo }: EngineRequest): string | undefined {
  return bootstrapInfo && `room ${bootstrapInfo.bootstrap_room}`;
}

/** Returns the source in a prefill result of this kind of engine. */
function remoteOf({ prefillResult }: EngineRequest): HandoffRequest | undefined {
  const params = asRecord(asRecord(prefillResult?.disaggregated_params)?.kv_transfer_params);
  const { remote_host: host, remote_port: port, remote_request_id: key } = params ?? {};
  if (typeof host !== 'string' || typeof port !== 'number' || typeof key !== 'string') return undefined;
  return { host, port, key, mayWait: false };
}

/** Bytes of one number in the KV cache. `auto` is the model's own type, or two bytes if that is unknown. */
const BYTES: Readonly<Record<string, number>> = { float32: 4, float16: 2, bfloat16: 2 };

/**
 * Returns the KV bytes of one token: layers x 2 x KV heads x head size x bytes of a number.
 * @param config the model's `config.json`
 * @param type `--kv-cache-dtype`
 * @returns 0 if the configuration lacks some of these
 */
export function kvBytesPerToken(config: UnknownRecord, type: string): number {
  const text = isRecord(config.text_config) ? { ...config, ...config.text_config } : config;
  const of = (name: string): number | undefined => {
    const value = text[name];
    return typeof value === 'number' && value > 0 ? value : undefined;
  };
  const layers = of('num_hidden_layers') ?? of('n_layer') ?? 0;
  const heads = of('num_attention_heads') ?? of('n_head') ?? 0;
  const kvHeads = of('num_key_value_heads') ?? heads;
  const headSize = of('head_dim') ?? (heads === 0 ? 0 : (of('hidden_size') ?? of('n_embd') ?? 0) / heads);
  return layers * 2 * kvHeads * headSize * bytesOf(type, text);
}

function bytesOf(type: string, { torch_dtype: torch, dtype = torch }: UnknownRecord): number {
  if (type.startsWith('fp8')) return 1;
  if (type !== 'auto') return BYTES[type] ?? 2;
  return (typeof dtype === 'string' ? BYTES[dtype] : undefined) ?? 2;
}
