import { ServeError } from '../../errors/index.ts';
import type { ChatMessage, GenerationRequest, PromptInput, PromptMedia } from '../../protocol/index.ts';
import { type HashedPrompt, keyOfText, type PromptHome, rootOf, type WorkerPool } from '../../router/index.ts';
import { hashBlocks, type LoadedModel, mediaHash, mediaIdentity } from '../../tokens/index.ts';
import type { RoutableModel } from '../models/routable-model.ts';
import { expansionsOf, type MediaKind, placesOf } from './media-expansion.ts';
import type { MediaMemory } from './media-memory.ts';
import { type PromptTools, tokenizePrompt } from './prompt-tokens.ts';

/** A medium that a chat names. */
interface NamedMedium {
  readonly kind: MediaKind;
  /** URL of the medium; undefined for sound that the message itself holds. */
  readonly url: string | undefined;
  /** Identity of its content, if this process knows that. */
  readonly identity: string | undefined;
  /** Hash of its content, or of its place. */
  readonly hash: bigint;
}

/** Tokens `start .. end` of a prompt that a medium takes. */
interface MediaPlace {
  readonly start: number;
  readonly end: number;
  readonly hash: bigint;
}

const KINDS: Readonly<Record<string, MediaKind>> = {
  image_url: 'image',
  video_url: 'video',
  audio_url: 'audio',
  input_audio: 'audio',
};
/** Fields of a body that change the tokens of a medium. An engine mixes them into its own identifiers. */
const READING = ['mm_processor_kwargs', 'media_io_kwargs'] as const;
const NO_TOKENS = new Uint32Array(0);

/**
 * Whether workers render the chat: because their engine renders all of them, because it names media, or because no
 * other process can render it.
 */
export function isRenderedByWorker({ prompt }: GenerationRequest, model: RoutableModel, loaded: LoadedModel): boolean {
  if (prompt.kind === 'chat' && model.passesChats === true) return true;
  if (prompt.kind !== 'chat' || model.card.runtime_config.media_chats !== true) return false;
  return loaded.chatTemplate === undefined || namesMedia(prompt);
}

/** Whether only a worker knows the tokens of the prompt: it names media, and the worker renders it. */
export function isReadByWorker({ prompt }: GenerationRequest, { card, passesChats }: RoutableModel): boolean {
  return (passesChats === true || card.runtime_config.media_chats === true) && namesMedia(prompt);
}

function namesMedia(prompt: PromptInput): boolean {
  if (prompt.kind !== 'chat') return false;
  return prompt.messages.some(
    ({ content }) => Array.isArray(content) && content.some((part) => kindOf(part) !== undefined),
  );
}

/**
 * A chat with media as routers see it: the tokens that its engine will have, with the media's own hashes in their
 * blocks. The tokens of a medium are known if an engine has reported them before. Otherwise the prompt is known only up
 * to the first unknown medium, until the worker's answer reports the tokens. A prompt with an unknown medium has a home
 * among the workers.
 */
export class MediaPrompt {
  readonly #model: string;
  readonly #memory: MediaMemory;
  readonly #media: readonly NamedMedium[];
  /** Prompt as rendered here, with a placeholder for each medium; empty if it cannot be rendered here. */
  readonly #rendered: Uint32Array;
  /** Tokens before the first medium, if its placeholder is not known. */
  readonly #before: number;
  readonly #isPlain: boolean;
  readonly #tokens: Uint32Array;
  readonly #places: readonly MediaPlace[];
  /** Media whose tokens are not known. */
  readonly #unknown: readonly NamedMedium[];

  private constructor(
    model: string,
    memory: MediaMemory,
    media: readonly NamedMedium[],
    {
      rendered,
      before,
      isPlain,
    }: { readonly rendered: Uint32Array; readonly before: number; readonly isPlain: boolean },
  ) {
    this.#model = model;
    this.#memory = memory;
    this.#media = media;
    this.#rendered = rendered;
    this.#before = before;
    this.#isPlain = isPlain;
    const expanded = this.#expand();
    this.#tokens = expanded.tokens;
    this.#places = expanded.places;
    this.#unknown = expanded.unknown;
  }

  /**
   * Makes the prompt. Rejects as `PromptEncoder.encode`. If a chat cannot be rendered here, its engine may still refuse
   * it.
   */
  static async of(
    request: GenerationRequest,
    model: RoutableModel,
    loaded: LoadedModel,
    tools: PromptTools,
    memory: MediaMemory,
    signal?: AbortSignal,
  ): Promise<MediaPrompt> {
    const isPlain = READING.every((field) => request.body?.[field] == null);
    const reading = isPlain ? undefined : READING.map((field) => request.body?.[field]);
    const media = mediaOf(request.prompt, memory, reading);
    const limits = { model: model.primaryName, contextLength: 0, signal };
    const render = async (shown: GenerationRequest): Promise<Uint32Array> => {
      try {
        return (await tokenizePrompt(shown, loaded, tools, limits)).tokenIds;
      } catch (thrown) {
        if (!(thrown instanceof ServeError) || thrown.code !== 'invalid_value') throw thrown;
        return NO_TOKENS;
      }
    };
    const key = rootOf(model.pool).key;
    const rendered = await render(withParts(request, (kind) => [{ type: kind }]));
    const kinds = media.map(({ kind }) => kind);
    const isPlaced = placesOf(rendered, kinds, memory.placeholdersOf(key)) !== undefined;
    const before = isPlaced ? 0 : commonLength(rendered, await render(withParts(request, () => [])));
    return new MediaPrompt(key, memory, media, { rendered, before, isPlain });
  }

  /** Whether to ask the worker for the tokens of the prompt. */
  get asksForTokens(): boolean {
    return this.#isPlain && this.#rendered.length > 0 && this.#unknown.length > 0;
  }

  /** Tokens of the prompt as rendered here; undefined if it could not be rendered, or names media. */
  get plainTokens(): number | undefined {
    return this.#media.length > 0 || this.#rendered.length === 0 ? undefined : this.#rendered.length;
  }

  /** Home of the prompt, by its first unknown medium. The worker there probably has most of the unknown media. */
  get home(): PromptHome | undefined {
    const [first] = this.#unknown;
    return first && { key: keyOfText(first.hash.toString(16)), tokens: this.#unknownTokens };
  }

  /** Returns the prompt for a pool, with the names of its blocks. */
  hashedFor(
    { blockSizeTokens, isEagle }: WorkerPool,
    { lora_name: loraName, cache_salt: cacheSalt }: GenerationRequest['routing'],
  ): HashedPrompt {
    const mediaHashes = byBlock(this.#places, blockSizeTokens);
    const hashes = hashBlocks(this.#tokens, { blockSizeTokens, isEagle, loraName, cacheSalt, mediaHashes });
    return { tokens: this.#tokens.length + this.#unknownTokens, hashes };
  }

  /** Learns from the worker the identities of its media and the tokens of the prompt. */
  learn({ ids, token_ids: told }: PromptMedia): void {
    const media = this.#media;
    if (ids.length !== media.length) return; // the worker has media that this process does not know
    if (this.#isPlain)
      for (const [at, { url }] of media.entries()) if (url !== undefined) this.#note(url, ids[at] as string);
    if (told === undefined || !this.asksForTokens) return;
    const kinds = media.map(({ kind }) => kind);
    const known = this.#memory.placeholdersOf(this.#model);
    const found = expansionsOf(this.#rendered, Uint32Array.from(told), kinds, known);
    if (found === undefined) return;
    this.#memory.notePlaceholders(this.#model, found.placeholders);
    for (const [at, run] of found.runs.entries()) {
      if (ids[at] !== '') this.#memory.noteTokens(this.#model, ids[at] as string, run);
    }
  }

  #note(url: string, identity: string): void {
    if (identity !== '') this.#memory.noteIdentity(url, identity);
  }

  get #unknownTokens(): number {
    return this.#unknown.length * this.#memory.expectedTokens(this.#model);
  }

  #expand(): { tokens: Uint32Array; places: readonly MediaPlace[]; unknown: readonly NamedMedium[] } {
    const [media, rendered, model] = [this.#media, this.#rendered, this.#model];
    const kinds = media.map(({ kind }) => kind);
    const placeholders = placesOf(rendered, kinds, this.#memory.placeholdersOf(model));
    if (placeholders === undefined) {
      const start = this.#before; // no block from there on may match the same prompt with other media
      return { tokens: rendered, places: media.map(({ hash }) => ({ start, end: start + 1, hash })), unknown: media };
    }
    const pieces: Uint32Array[] = [];
    const places: MediaPlace[] = [];
    const unknown: NamedMedium[] = [];
    let [length, from] = [0, 0];
    const add = (piece: Uint32Array): void => {
      pieces.push(piece);
      length += piece.length;
    };
    placeholders.forEach((place, at) => {
      const medium = media[at] as NamedMedium;
      add(rendered.subarray(from, place));
      const isKnown = this.#isPlain && medium.identity !== undefined;
      const run = isKnown ? this.#memory.tokensOf(model, medium.identity as string) : undefined;
      if (run === undefined) unknown.push(medium);
      const start = length;
      add(run ?? rendered.subarray(place, place + 1));
      places.push({ start, end: length, hash: medium.hash });
      from = place + 1;
    });
    add(rendered.subarray(from));
    return { tokens: joined(pieces, length), places, unknown };
  }
}

function joined(pieces: readonly Uint32Array[], length: number): Uint32Array {
  const tokens = new Uint32Array(length);
  let end = 0;
  for (const piece of pieces) {
    tokens.set(piece, end);
    end += piece.length;
  }
  return tokens;
}

/** Returns the hashes of the media of each block. */
function byBlock(places: readonly MediaPlace[], blockSizeTokens: number): ReadonlyMap<number, readonly bigint[]> {
  const blocks = new Map<number, bigint[]>();
  if (blockSizeTokens === 0) return blocks;
  for (const { start, end, hash } of places) {
    for (let block = Math.floor(start / blockSizeTokens); block * blockSizeTokens < end; block++) {
      const known = blocks.get(block);
      if (known === undefined) blocks.set(block, [hash]);
      else known.push(hash);
    }
  }
  return blocks;
}

function kindOf({ type }: Readonly<Record<string, unknown>>): MediaKind | undefined {
  return typeof type === 'string' ? KINDS[type] : undefined;
}

/**
 * Returns the media of a prompt.
 * @param reading fields that change the tokens of the media, which then only the engine knows
 */
function mediaOf(prompt: PromptInput, memory: MediaMemory, reading: unknown): readonly NamedMedium[] {
  if (prompt.kind !== 'chat') return [];
  const parts = prompt.messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  return parts.flatMap((part) => {
    const kind = kindOf(part);
    if (kind === undefined) return [];
    const url = urlOf(part);
    const identity = url === undefined || reading !== undefined ? undefined : memory.identityOf(url);
    const name = identity ?? mediaIdentity(url ?? JSON.stringify(part.input_audio), reading);
    return [{ kind, url, identity, hash: mediaHash(name) ?? 0n }];
  });
}

function urlOf(part: Readonly<Record<string, unknown>>): string | undefined {
  const named = part[part.type as string];
  const url = typeof named === 'object' && named !== null ? (named as { readonly url?: unknown }).url : named;
  return typeof url === 'string' ? url : undefined;
}

/** Returns the request with each medium replaced by the result of `shown`, because templates get only its kind. */
function withParts(
  request: GenerationRequest,
  shown: (kind: MediaKind) => readonly Readonly<Record<string, unknown>>[],
): GenerationRequest {
  const { prompt } = request;
  if (prompt.kind !== 'chat') return request;
  const messages = prompt.messages.map((message): ChatMessage => {
    const { content } = message;
    if (!Array.isArray(content)) return message;
    const parts = content.flatMap((part: Readonly<Record<string, unknown>>) => {
      const kind = kindOf(part);
      return kind === undefined ? [part] : shown(kind);
    });
    return { ...message, content: parts };
  });
  return { ...request, prompt: { ...prompt, messages } };
}

function commonLength(a: Uint32Array, b: Uint32Array): number {
  let length = 0;
  while (length < a.length && length < b.length && a[length] === b[length]) length++;
  return length;
}
