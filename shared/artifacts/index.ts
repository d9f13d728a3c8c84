/**
 * @module artifacts
 * Model folders by checksum: from a local path, from elsewhere into bounded folders that keep them; adapters likewise; and the small
 * model and text that come with the product.
 */
export { FolderCache } from './fetching/folder-cache.ts';
export { ModelCache } from './fetching/model-cache.ts';
export {
  type ArtifactSource,
  type BucketPlace,
  bucketPlace,
  bucketSource,
  listArtifacts,
  openS3,
  pushFolder,
  type S3,
  workerSource,
} from './fetching/sources.ts';
export { builtinModelPath, builtinText, findLocalModel } from './local-models.ts';
export { describeChatTemplate, ModelFilesAbsent, openChatTemplate, openModelFolder } from './open-model-folder.ts';
