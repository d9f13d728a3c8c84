/**
 * @module tokens
 * Text to tokens and back: model folders, tokenizers, incremental detokenization, chat templates and block hashes.
 * `loadModelFolder` is the way in; byte-level BPE models run on our own tables, all others on a general library.
 */
export type {
  ChatTemplate,
  ChatTemplateInput,
  DecodeOptions,
  DefaultSampling,
  Detokenizer,
  EncodeOptions,
  LoadedModel,
  ModelFile,
  ModelInfo,
  Tokenizer,
} from './types.ts';
