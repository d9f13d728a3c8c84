import type { PackedAddedTokens } from './added-tokens.ts';
import type { BpeTables } from './bpe/tables.ts';

/** Options for turning text into token ids. */
export interface EncodeOptions {
  /**
   * Whether to add the ids of the post-processor (BOS, CLS, ...). @default false: chat templates write these themselves
   */
  readonly addSpecialTokens?: boolean;
}

/** Returns the ids of a text. */
export type EncodeText = (text: string, options?: EncodeOptions) => Uint32Array;

/** Data from which a thread encodes as this tokenizer does. Structured-clonable; the tables are in shared memory. */
export type TokenizerRecipe =
  | {
      readonly kind: 'byte-level';
      readonly rest: unknown;
      readonly tables: BpeTables;
      readonly addedTokens: PackedAddedTokens;
    }
  /** Any other kind: the thread reads the tokenizer.json at `path` anew. */
  | { readonly kind: 'general'; readonly path: string };

/** Options for turning token ids into text. */
export interface DecodeOptions {
  /** Whether to leave special tokens out of the text. @default true */
  readonly skipSpecialTokens?: boolean;
}

/** Turns the ids of one stream into text as they arrive, without ever splitting a character. */
export interface Detokenizer {
  /** Returns the text that `id` completes; empty while a character is unfinished and for skipped special tokens. */
  push(id: number): string;
  /**
   * Ends the stream. Returns the text still held, with an unfinished character as one U+FFFD. The detokenizer can be
   * reused.
   */
  flush(): string;
}

/** Tokenizer of one model. Every method is synchronous; ids outside the vocabulary decode to nothing. */
export interface Tokenizer {
  /** Number of entries, added tokens included; ids are below it unless the file leaves gaps. */
  readonly vocabSize: number;
  /** Encodes a text. Throws if `encodesInThreads` is set. */
  readonly encode: EncodeText;
  /** Whether only a `PromptEncoder` encodes, because that would block this thread for too long. @default false */
  readonly encodesInThreads?: boolean;
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;
  /**
   * Creates a detokenizer. `promptTail`: the last few prompt ids (5 or more if there are as many), which decide about a
   * leading space.
   */
  createDetokenizer(promptTail: ArrayLike<number>, options?: DecodeOptions): Detokenizer;
  /** Returns the bytes of `id`, for log probabilities; not necessarily whole UTF-8. Special tokens give their name. */
  tokenBytes(id: number): Uint8Array;
  /** Returns true for ids that `skipSpecialTokens` hides. */
  isSpecial(id: number): boolean;
  tokenToId(token: string): number | undefined;
  /** Returns the token as the vocabulary spells it (byte-level tokens in their printable form). */
  idToToken(id: number): string | undefined;
  /**
   * Returns the ends of segments of `text`, ascending up to its length; the joined ids of the segments are the ids of
   * the text. Texts that begin alike are cut alike up to their first difference. Undefined if no cut is known to be
   * safe.
   */
  readonly cut?: ((text: string) => readonly number[]) | undefined;
  /** Returns the fewest tokens that a text of `units` UTF-16 units can have. Undefined if there is no such bound. */
  readonly fewestTokens?: ((units: number) => number) | undefined;
  /** File that the tokenizer was loaded from. */
  readonly path?: string | undefined;
  /** Recipe for other threads; undefined when only this thread can encode. */
  readonly recipe?: TokenizerRecipe | undefined;
}

/** Input of a chat prompt. Messages and tools have OpenAI's shape. */
export interface ChatTemplateInput {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  /** Tools of the request. Absent and empty both mean no tools. */
  readonly tools?: readonly Readonly<Record<string, unknown>>[] | undefined;
  /** Whether to open the assistant's turn. @default true, false when `continueFinalMessage` is set */
  readonly addGenerationPrompt?: boolean | undefined;
  /** Whether to end the prompt inside the last message, which must be from the assistant. @default false */
  readonly continueFinalMessage?: boolean | undefined;
  /**
   * Extra variables (`chat_template_args`). They override the variables above; decoders decide which ones get this far.
   */
  readonly args?: Readonly<Record<string, unknown>> | undefined;
  /** Unix milliseconds for `strftime_now`. */
  readonly nowMs: number;
  /** Called when the template refused the history, which was then rendered as text. */
  readonly onPlain?: (() => void) | undefined;
}

/** A compiled chat template. */
export interface ChatTemplate {
  /**
   * Renders the prompt of one conversation.
   * @throws ServeError `invalid_value` when the template refuses the messages or the flags contradict each other
   */
  render(input: ChatTemplateInput): string;
}

/** A file of a model folder. */
export interface ModelFile {
  /** Absolute path at its worker; for a worker of Dynamo also the URL under which it serves the file. */
  readonly path: string;
  /** Checksum, as `sha256:{hex}` or `blake3:{hex}`. */
  readonly checksum: string;
  /** Checksum of the same bytes as Dynamo has it. Absent on cards that processes of Dynamo do not meet. */
  readonly blake3?: string;
  /** Size in bytes. */
  readonly size: number;
}

/** Sampling defaults of generation_config.json, in the names of requests. */
export interface DefaultSampling {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly min_p?: number;
  readonly repetition_penalty?: number;
  readonly presence_penalty?: number;
  readonly frequency_penalty?: number;
  /** `max_new_tokens` in the file. */
  readonly max_tokens?: number;
}

/** Information in a model folder, apart from its tokenizer's tables. */
export interface ModelInfo {
  readonly path: string;
  readonly modelType: string | undefined;
  readonly architectures: readonly string[];
  /** Architectural context length in tokens; undefined when no file states one. */
  readonly contextLength: number | undefined;
  readonly eosTokenIds: readonly number[];
  readonly bosTokenId: number | undefined;
  /** `vocab_size` of config.json, which may exceed the tokenizer's. */
  readonly vocabSize: number | undefined;
  readonly defaultSampling: DefaultSampling;
  /**
   * Files by name: `config.json`, `tokenizer.json`, ... Only existing files; empty when checksums were not requested.
   */
  readonly files: Readonly<Record<string, ModelFile>>;
}

/** Model folder that is ready to serve. */
export interface LoadedModel {
  readonly path: string;
  readonly tokenizer: Tokenizer;
  /** Template; undefined when the folder has none: then chat requests are refused, and completions work. */
  readonly chatTemplate: ChatTemplate | undefined;
  readonly info: ModelInfo;
}
