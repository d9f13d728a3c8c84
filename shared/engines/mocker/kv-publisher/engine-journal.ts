import type { BlockListener } from '../block-pool.ts';
import type { BlockNames } from '../sequence.ts';
import { TokenNames } from '../token-names.ts';

/** One event as vLLM 0.25 and later writes it. */
export type WireEvent =
  | {
      readonly type: 'BlockStored';
      readonly block_hashes: bigint[];
      readonly parent_block_hash: bigint | null;
      readonly token_ids: number[];
      readonly block_size: number;
      readonly lora_id: null;
      readonly medium: 'GPU';
      readonly lora_name: string | null;
      readonly extra_keys: (readonly string[] | null)[];
      readonly group_idx: 0;
      readonly kv_cache_spec_kind: 'full_attention';
    }
  | { readonly type: 'BlockRemoved'; readonly block_hashes: bigint[]; readonly medium: 'GPU'; readonly group_idx: 0 }
  | { readonly type: 'AllBlocksCleared' };

type Stored = Extract<WireEvent, { type: 'BlockStored' }>;

/**
 * Collects the block changes of one pass with their tokens. Blocks of one sequence stored one after the other are one event,
 * as vLLM tells them; removals come one by one.
 */
export class EngineJournal implements BlockListener {
  readonly #blockSizeTokens: number;
  #events: WireEvent[] = [];
  #open: { readonly event: Stored; readonly names: BlockNames; nextIndex: number } | undefined;

  constructor(blockSizeTokens: number) {
    this.#blockSizeTokens = blockSizeTokens;
  }

  stored(names: BlockNames, index: number): void {
    if (!(names instanceof TokenNames)) throw new TypeError('only blocks of known tokens can be published');
    if (this.#open?.names !== names || this.#open.nextIndex !== index) this.#begin(names, index);
    const { event } = this.#open!; // set by `begin`, or there before
    const size = this.#blockSizeTokens;
    event.block_hashes.push(hashAt(names.hashes, index));
    for (let at = index * size; at < (index + 1) * size; at++) event.token_ids.push(names.tokens[at]!);
    event.extra_keys.push(extraKeys(names, index));
    this.#open!.nextIndex = index + 1;
  }

  removed(hashLow: number, hashHigh: number): void {
    this.#open = undefined;
    this.#events.push({ type: 'BlockRemoved', block_hashes: [toHash(hashLow, hashHigh)], medium: 'GPU', group_idx: 0 });
  }

  cleared(): void {
    this.#open = undefined;
    this.#events.push({ type: 'AllBlocksCleared' });
  }

  /** The events since the last call, in order. */
  drain(): readonly WireEvent[] {
    this.#open = undefined; // lets go of a finished request
    const events = this.#events;
    if (events.length > 0) this.#events = [];
    return events;
  }

  #begin(names: TokenNames, index: number): void {
    const event: Stored = {
      type: 'BlockStored',
      block_hashes: [],
      parent_block_hash: index === 0 ? null : hashAt(names.hashes, index - 1),
      token_ids: [],
      block_size: this.#blockSizeTokens,
      lora_id: null,
      medium: 'GPU',
      lora_name: names.scope.loraName ?? null,
      extra_keys: [],
      group_idx: 0,
      kv_cache_spec_kind: 'full_attention',
    };
    this.#open = { event, names, nextIndex: index };
    this.#events.push(event);
  }
}

/** The adapter's name on every block, the salt on the first one alone. */
function extraKeys({ scope: { loraName, cacheSalt } }: TokenNames, index: number): readonly string[] | null {
  const keys = [loraName, index === 0 ? cacheSalt : undefined].filter((key) => key !== undefined && key !== '');
  return keys.length === 0 ? null : (keys as readonly string[]);
}

function hashAt(pairs: Uint32Array, index: number): bigint {
  return toHash(pairs[2 * index]!, pairs[2 * index + 1]!);
}

function toHash(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}
