/**
 * @module tokens
 * Text to tokens and back: model folders, tokenizers, incremental detokenization, chat templates and block hashes.
 * `loadModelFolder` is the way in; byte-level BPE models run on our own tables, all others on a general library in threads.
 */
export type { PreparedFile } from './bpe/prepared-tables.ts';
export { readDefaultSampling } from './default-sampling.ts';
export {
  type BlockHasher,
  type BlockHashes,
  type BlockHashOptions,
  borrowChain,
  chainHashes,
  createBlockHasher,
  type HashScope,
  type HashScratch,
  type HashSeeds,
  hashBlocks,
  hashScratch,
  mediaHash,
  seededHashes,
  xxh3Hash,
} from './hashing/block-hashes.ts';
export { mediaIdentity } from './hashing/media-identity.ts';
export { compareModelFile, describeModelFile, findTokenizerFile, ModelFolderError } from './model-files.ts';
export { type LoadModelOptions, loadFolderTokenizer, loadModelFolder } from './model-folder.ts';
export { type ReadModelInfoOptions, readFolderSampling, readModelInfo, type SpecialTokens } from './model-info.ts';
export {
  type EncodedPrompt,
  type EncodePromptOptions,
  PromptEncoder,
  type PromptEncoderOptions,
} from './prompts/prompt-encoder.ts';
export { type ChatTemplateSource, compileChatTemplate } from './template/chat-template.ts';
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
