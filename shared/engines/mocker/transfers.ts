import type { Clock } from '../../clock/index.ts';
import type { EngineRequest } from '../../protocol/generation/index.ts';
import { asRecord } from '../../records/index.ts';
import type { HandoffListener, HandoffNetwork, HandoffRequest } from './handoff/handoffs.ts';
import { HeldBlocks } from './handoff/held-blocks.ts';

/** The link over which blocks move. */
export interface TransferModel {
  readonly bytesPerToken: number;
  /** GB/s; 0 = no delay. */
  readonly bandwidthGbps: number;
  /** Only what the decode engine does not have crosses, not the whole prompt. */
  readonly movesMissingOnly: boolean;
}

export interface TransfersOptions extends TransferModel {
  readonly clock: Clock;
  readonly network: HandoffNetwork;
  readonly isPrefill: boolean;
  /** Where decode engines may come before the blocks are there. @default any port, and only afterwards */
  readonly bootstrapPort: number | undefined;
  /** Longest stay of blocks that nobody fetches, and longest wait for some. */
  readonly timeoutMs: number;
}

/** How long an engine that stops waits for decode engines to fetch what it has for them. */
const SETTLE_MS = 5000;

/** Time to move `tokens`. */
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

  /** Opens the door of a prefill engine. Rejects when the port is in use. */
  async open(): Promise<HandoffListener | undefined> {
    const { isPrefill, network, bootstrapPort } = this.#options;
    if (isPrefill) this.#listener = await network.listen(bootstrapPort ?? 0, this.#held);
    return this.#listener;
  }

  /** Lets decode engines fetch what is kept for them, for a while; then frees it. */
  async close(): Promise<void> {
    for (const end of [...this.#fetches]) end();
    await this.#held.settle(Math.min(SETTLE_MS, this.#options.timeoutMs));
    await this.#listener?.close();
  }

  /** Whether the blocks of a request are to be kept when it has its token. */
  keeps({ isHealthCheck = false }: EngineRequest): boolean {
    return this.#listener !== undefined && !isHealthCheck;
  }

  /** Keeps the blocks of a finished prefill until they are fetched, and says where. `free` is called once. */
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

  /** Nobody will fetch what the prefill of `request` holds, or nothing will come of it. */
  release(request: EngineRequest): void {
    const key = roomOf(request) ?? remoteOf(request)?.key;
    if (key === undefined) return;
    this.#held.release(key);
    this.#held.refuse(key, 'the prefill was cancelled');
  }

  /** Where the blocks of a request's prompt are, if another engine has them. */
  sourceOf(request: EngineRequest): HandoffRequest | undefined {
    const { bootstrapInfo, isHealthCheck } = request;
    if (this.#options.isPrefill || isHealthCheck) return undefined;
    if (bootstrapInfo === undefined) return remoteOf(request);
    const { bootstrap_host: host, bootstrap_port: port } = bootstrapInfo;
    return { host, port, key: roomOf(request) ?? '', mayWait: true };
  }

  /**
   * Fetches the blocks of a prompt; `tokens` says how many of its tokens have to be moved once they are there. Calls one of
   * the two, on a later turn, unless the returned function is called before.
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
    let timer = clock.after(timeoutMs, () => fail('the blocks did not come in time'));
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

/** What a prefill engine of this kind said when it was done. */
function remoteOf({ prefillResult }: EngineRequest): HandoffRequest | undefined {
  const params = asRecord(asRecord(prefillResult?.disaggregated_params)?.kv_transfer_params);
  const { remote_host: host, remote_port: port, remote_request_id: key } = params ?? {};
  if (typeof host !== 'string' || typeof port !== 'number' || typeof key !== 'string') return undefined;
  return { host, port, key, mayWait: false };
}
