import type { PackedAddedTokens } from './added-tokens.ts';
import type { BpeTables } from './bpe/tables.ts';

/** How text becomes token ids. */
export interface EncodeOptions {
  /** Adds what the post-processor adds (BOS, CLS, ...). @default false: chat templates write these themselves */
  readonly addSpecialTokens?: boolean;
}

/** Ids of a text. */
export type EncodeText = (text: string, options?: EncodeOptions) => Uint32Array;

/** What a thread needs to encode as this tokenizer does. Structured-clonable; the tables are in shared memory. */
export type TokenizerRecipe =
  | {
      readonly kind: 'byte-level';
      readonly rest: unknown;
      readonly tables: BpeTables;
      readonly addedTokens: PackedAddedTokens;
    }
  /** Any other kind: the tokenizer.json at `path` is read anew. */
  | { readonly kind: 'general'; readonly path: string };

/** How token ids become text. */
export interface DecodeOptions {
  /** Leaves special tokens out of the text. @default true */
  readonly skipSpecialTokens?: boolean;
}

/** Turns the ids of one stream into text as they come, and never splits a character. */
export interface Detokenizer {
  /** Text that `id` completes; empty while a character is unfinished and for skipped special tokens. */
  push(id: number): string;
  /** Ends the stream: what is still held back, an unfinished character as one U+FFFD. The detokenizer can be used on. */
  flush(): string;
}

/** One model's tokenizer. Every method is synchronous; ids outside the vocabulary decode to nothing. */
export interface Tokenizer {
  /** Entries including added tokens; ids are below it unless the file leaves gaps. */
  readonly vocabSize: number;
  /** Throws where `encodesInThreads` is set. */
  readonly encode: EncodeText;
  /** Only a `PromptEncoder` encodes, as this thread would be held up for too long. @default false */
  readonly encodesInThreads?: boolean;
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;
  /** `promptTail`: the last few prompt ids (5 or more where there are as many), which decide about a leading space. */
  createDetokenizer(promptTail: ArrayLike<number>, options?: DecodeOptions): Detokenizer;
  /** The bytes that `id` stands for, for log probabilities; not necessarily whole UTF-8. Special tokens give their name. */
  tokenBytes(id: number): Uint8Array;
  /** True for ids that `skipSpecialTokens` hides. */
  isSpecial(id: number): boolean;
  tokenToId(token: string): number | undefined;
  /** The token as the vocabulary spells it (byte-level tokens in their printable form). */
  idToToken(id: number): string | undefined;
  /**
   * Ends of stretches of `text`, ascending up to its length, whose ids joined are the ids of the text. Texts that begin
   * alike are cut alike up to where they differ. Undefined where no cut is known to be safe.
   */
  readonly cut?: ((text: string) => readonly number[]) | undefined;
  /** Tokens that a text of so many UTF-16 units has at least. Undefined where nothing is known. */
  readonly fewestTokens?: ((units: number) => number) | undefined;
  /** The file that it was loaded from. */
  readonly path?: string | undefined;
  /** Undefined when only this thread can encode. */
  readonly recipe?: TokenizerRecipe | undefined;
}

/** What a chat prompt is made from. Messages and tools in OpenAI's shape. */
export interface ChatTemplateInput {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  /** Absent and empty mean the same: no tools. */
  readonly tools?: readonly Readonly<Record<string, unknown>>[] | undefined;
  /** @default true, false when `continueFinalMessage` is set */
  readonly addGenerationPrompt?: boolean | undefined;
  /** Ends the prompt inside the last message, which must be from the assistant. @default false */
  readonly continueFinalMessage?: boolean | undefined;
  /** Extra variables; of those above only what a decoder lets through is overridden (`chat_template_args`). */
  readonly args?: Readonly<Record<string, unknown>> | undefined;
  /** Unix milliseconds for `strftime_now`. */
  readonly nowMs: number;
  /** Hears that the template refused the history, which was told as text. */
  readonly onPlain?: (() => void) | undefined;
}

/** A compiled chat template. */
export interface ChatTemplate {
  /**
   * The prompt of one conversation.
   * @throws ServeError `invalid_value` when the template refuses the messages or the flags contradict each other
   */
  render(input: ChatTemplateInput): string;
}

/** A file of a model folder. */
export interface ModelFile {
  /** Absolute. */
  readonly path: string;
  /** `sha256:{hex}`. */
  readonly checksum: string;
  /** Bytes. */
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
  /** `max_new_tokens` there. */
  readonly max_tokens?: number;
}

/** What a model folder says apart from its tokenizer's tables. */
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
  /** By role: `config.json`, `tokenizer.json`, ... Only files that exist; empty when checksums were not asked for. */
  readonly files: Readonly<Record<string, ModelFile>>;
}

/** A model folder ready to serve. */
export interface LoadedModel {
  readonly path: string;
  readonly tokenizer: Tokenizer;
  /** Undefined when the folder has none: chat requests are then refused, completions work. */
  readonly chatTemplate: ChatTemplate | undefined;
  readonly info: ModelInfo;
}
