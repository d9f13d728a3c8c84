import { type BlockHashes, hashBlocks, mediaHash } from '../../tokens/index.ts';
import type { KvEvent, KvTier } from '../types.ts';
import { scopeOfSalt } from './adapter-salt.ts';
import type { EngineEvent } from './engine-events.ts';

type Stored = Extract<EngineEvent, { kind: 'stored' }>;

export interface EventNormaliserOptions {
  readonly dpRank: number;
  /** Block size by which routers hash prompts: events with another one cannot be used. */
  readonly blockSizeTokens: number;
  /** Salt of blocks whose event names none. @default none */
  readonly cacheSalt?: string | undefined;
  /** Called for an event that cannot be used; `why` is one of few texts. */
  onUnusable(why: string): void;
}

/** Limit of salted blocks whose salt is remembered for the blocks after them; no engine holds more. */
const SALTED_BLOCKS_MAX = 1_000_000;

/** Reason for stores of vLLM's connectors that copy blocks to host memory. Their events name tokens on request. */
const NO_TOKENS =
  'no tokens: set "self_describing_kv_events": true in kv_connector_extra_config of --kv-transfer-config';

/** Kinds of cache that hold every token of the prefix; windows and states do not. */
const WHOLE_PREFIX_KINDS: ReadonlySet<string> = new Set(['full_attention', 'mla_attention', 'sink_full_attention']);

/**
 * Converts the events of one rank of an engine to the product's own. It hashes tokens by the product's rule, with
 * adapters, salts and media, and follows blocks of only one cache group. vLLM names a salt only on the first block of a
 * prompt, so the salt is carried along the chain of parents.
 */
export class EventNormaliser {
  readonly #options: EventNormaliserOptions;
  readonly #saltOfBlock = new Map<string, string>();
  /** Group of blocks that is followed: the first one that holds whole prefixes. */
  #group: number | undefined;
  #isEmpty = true;

  constructor(options: EventNormaliserOptions) {
    this.#options = options;
  }

  /** Converts an event; undefined when it yields none. */
  apply(event: EngineEvent): KvEvent | undefined {
    switch (event.kind) {
      case 'stored':
        return this.#stored(event);
      case 'removed':
        return this.#removed(event);
      case 'cleared':
        return this.clear();
    }
  }

  /**
   * Reports that the engine's cache is empty. Undefined when it was empty before: the engine may report late what is
   * already known.
   */
  clear(): KvEvent | undefined {
    this.#saltOfBlock.clear();
    if (this.#isEmpty) return undefined;
    this.#isEmpty = true;
    return { kind: 'cleared', dpRank: this.#options.dpRank };
  }

  #stored(event: Stored): KvEvent | undefined {
    const { dpRank, blockSizeTokens, onUnusable } = this.#options;
    if (!this.#isFollowed(event.group, event.cacheKind) || isUnfilled(event, blockSizeTokens)) return undefined;
    const tier = tierOf(event.medium);
    const why = this.#whyUnusable(event);
    if (tier === undefined || why !== undefined) {
      onUnusable(why ?? `medium ${event.medium}`);
      return undefined;
    }
    const salt = this.#saltOf(event);
    const scope = event.cacheSalt === undefined ? undefined : scopeOfSalt(event.cacheSalt);
    const hashes: BlockHashes = hashBlocks(event.tokenIds, {
      blockSizeTokens,
      loraName: event.loraName ?? scope?.loraName,
      cacheSalt: (scope === undefined ? salt : scope.cacheSalt) ?? this.#options.cacheSalt,
      mediaHashes: mediaOf(event),
    });
    if (scope === undefined && salt !== undefined) this.#rememberSalt(event.blockHashes, salt);
    this.#isEmpty = false;
    const parent = event.parentHash;
    return {
      kind: 'stored',
      dpRank,
      parentHash: parent === undefined ? undefined : [parent[0]!, parent[1]!],
      blockHashes: event.blockHashes,
      tokensHashes: hashes.local,
      ...(tier === 'device' ? {} : { tier }),
    };
  }

  #removed(event: Extract<EngineEvent, { kind: 'removed' }>): KvEvent | undefined {
    if (event.group !== undefined && event.group !== (this.#group ?? 0)) return undefined;
    const tier = tierOf(event.medium);
    if (tier === undefined) return undefined; // the storing in it was not reported either
    const { blockHashes } = event;
    if (tier === 'device' && this.#saltOfBlock.size > 0) {
      for (let at = 0; at < blockHashes.length; at += 2) this.#saltOfBlock.delete(keyOf(blockHashes, at));
    }
    return { kind: 'removed', dpRank: this.#options.dpRank, blockHashes, ...(tier === 'device' ? {} : { tier }) };
  }

  #isFollowed(group: number | undefined, cacheKind: string | undefined): boolean {
    if (group === undefined) return true;
    if (this.#group !== undefined) return group === this.#group;
    const holdsPrefixes = cacheKind === undefined ? group === 0 : WHOLE_PREFIX_KINDS.has(cacheKind);
    if (holdsPrefixes) this.#group = group;
    return holdsPrefixes;
  }

  #whyUnusable({ blockSizeTokens, blockHashes, tokenIds, loraId, loraName }: Stored): string | undefined {
    if (tokenIds.length === 0) return NO_TOKENS;
    if (blockSizeTokens !== this.#options.blockSizeTokens) {
      return `block size ${blockSizeTokens}, not ${this.#options.blockSizeTokens}`;
    }
    if (tokenIds.length !== blockSizeTokens * (blockHashes.length / 2)) return 'tokens that do not fill its blocks';
    // Older engines number their adapters; routers hash by names.
    return loraId !== undefined && loraName === undefined ? 'an adapter without a name' : undefined;
  }

  /** Returns the prompt's salt if the event has no field for it: it is on its first block, or known from its parent. */
  #saltOf(event: Stored): string | undefined {
    if (event.parentHash !== undefined) return this.#saltOfBlock.get(keyOf(event.parentHash, 0));
    const texts = (event.extraKeys?.[0] ?? []).filter((key) => typeof key === 'string');
    // Untagged and in this order: the adapter's name on every block, then the salt.
    return event.loraName !== undefined && texts[0] === event.loraName ? texts[1] : texts[0];
  }

  #rememberSalt(hashes: Uint32Array, salt: string): void {
    for (let at = 0; at < hashes.length && this.#saltOfBlock.size < SALTED_BLOCKS_MAX; at += 2) {
      this.#saltOfBlock.set(keyOf(hashes, at), salt);
    }
  }
}

/**
 * Tells whether a store is the last block of a prompt, which its tokens do not fill. vLLM reports such blocks if its
 * groups have blocks of several sizes; a router counts whole blocks.
 */
function isUnfilled({ group, blockHashes, tokenIds, blockSizeTokens }: Stored, wholeTokens: number): boolean {
  const isOne = blockHashes.length === 2 && tokenIds.length === blockSizeTokens;
  return group !== undefined && isOne && blockSizeTokens > 0 && blockSizeTokens < wholeTokens;
}

/** Returns the media objects and embeddings among the extra keys of each block. */
function mediaOf({ extraKeys, loraName }: Stored): ReadonlyMap<number, readonly bigint[]> | undefined {
  const byBlock = new Map<number, bigint[]>();
  extraKeys?.forEach((keys, block) => {
    const hashes = (keys ?? []).flatMap((key) => identifierOf(key, loraName) ?? []);
    if (hashes.length > 0) byBlock.set(block, hashes);
  });
  return byBlock.size === 0 ? undefined : byBlock;
}

/**
 * Returns the identifier of an extra key. vLLM prefixes it with a multimodal adapter's name, which our hashes have in
 * their seed.
 */
function identifierOf(key: unknown, loraName: string | undefined): bigint | undefined {
  if (key instanceof Uint8Array) return mediaHash(Buffer.from(key).toString('hex'));
  const id: unknown = Array.isArray(key) ? key[0] : undefined;
  if (typeof id !== 'string') return undefined;
  return mediaHash(loraName !== undefined && id.startsWith(`${loraName}:`) ? id.slice(loraName.length + 1) : id);
}

/** Returns the tier of an engine's medium; undefined for an unknown one. */
function tierOf(medium: string | undefined): KvTier | undefined {
  switch (medium) {
    case undefined:
    case 'GPU':
      return 'device';
    case 'CPU':
    case 'CPU_PINNED':
    case 'CPU_TIER1':
    case 'CPU_TIER2':
      return 'host_pinned';
    case 'DISK':
    case 'STORAGE':
      return 'disk';
    case 'EXTERNAL':
    case 'REMOTE':
      return 'external';
    default:
      return undefined;
  }
}

function keyOf(pairs: Uint32Array, at: number): string {
  return `${pairs[at]}:${pairs[at + 1]}`;
}
