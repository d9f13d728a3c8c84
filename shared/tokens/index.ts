/**
 * @module tokens Text to tokens and back: model folders, tokenizers, incremental detokenization, chat templates and
 * block hashes. Start at `loadModelFolder`. Byte-level BPE models run on the product's own tables, all others on a
 * general library in threads.
 */
export type { PreparedFile } from './bpe/prepared-tables.ts';
export { readDefaultSampling } from './default-sampling.ts';
export { openDigest } from './file-digest.ts';
export {
  type BlockHasher,
  type BlockHashes,
  borrowChain,
  chainHashes,
  createBlockHasher,
  type HashScratch,
  type HashSeeds,
  hashBlocks,
  hashScratch,
  mediaHash,
  seededHashes,
  xxh3Hash,
} from './hashing/block-hashes.ts';
export { mediaIdentity } from './hashing/media-identity.ts';
export {
  compareModelFile,
  describeModelFile,
  findTokenizerFile,
  ModelFolderError,
  namesForServing,
  withBlake3,
} from './model-files.ts';
export { loadFolderTokenizer, loadModelFolder } from './model-folder.ts';
export { readFolderSampling, readModelInfo } from './model-info.ts';
export { PromptEncoder } from './prompts/prompt-encoder.ts';
export type { DefaultSampling, Detokenizer, LoadedModel, ModelFile, ModelInfo, Tokenizer } from './types.ts';
