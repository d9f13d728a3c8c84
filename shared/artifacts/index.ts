/**
 * @module artifacts
 * Model folders by checksum, from a local path, and the small model and text that come with the product.
 */

export { builtinModelPath, builtinText } from './builtin.ts';
export { FolderCache, type FolderCacheOptions } from './folder-cache.ts';
export { findLocalModel } from './local-model.ts';
export { type CardFiles, ModelCache, type ModelCacheOptions } from './model-cache.ts';
export {
  describeChatTemplate,
  ModelFilesAbsent,
  type ModelReference,
  openChatTemplate,
  openModelFolder,
} from './open-model-folder.ts';
export { type BucketPlace, bucketPlace, openS3, type S3 } from './s3.ts';
export {
  type Artifact,
  type ArtifactSource,
  artifactKey,
  bucketSource,
  folderSource,
  workerSource,
} from './sources.ts';
