/**
 * @module artifacts
 * Model folders by checksum: from a local path, or fetched from elsewhere into folders of bounded size. The same for
 * adapters. Models of the Hugging Face Hub, in the cache that its own tools share. Also the small model and the text
 * that come with the product.
 */
export { builtinModelPath, builtinText } from './builtin-model.ts';
export {
  type BucketObject,
  type BucketPrefix,
  leavesItsFolder,
  listPrefix,
  parsePrefix,
} from './fetching/bucket-prefix.ts';
export { FolderCache } from './fetching/folder-cache.ts';
export { ModelCache } from './fetching/model-cache.ts';
export { type BucketPlace, bucketPlace, openS3, type S3 } from './fetching/open-s3.ts';
export { type ArtifactSource, bucketSource, listArtifacts, pushFolder, workerSource } from './fetching/sources.ts';
export { hubModelOfCard, hubSource } from './hub/hub-source.ts';
export { findLocalModel, hubModelOf, openModel } from './hub/open-model.ts';
export { type HubSettings, hubPlace } from './hub/place.ts';
export {
  CUSTOM_TEMPLATE_ROLE,
  describeChatTemplate,
  ModelFilesAbsent,
  openChatTemplate,
  openModelFolder,
} from './open-model-folder.ts';
