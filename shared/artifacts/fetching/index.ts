/**
 * @module artifacts/fetching
 * Models and adapters from elsewhere: where their files are read, how they are checked, and the bounded folders that keep them.
 * A door of its own: it is loaded when something has to be fetched.
 */

export { FolderCache, type FolderCacheOptions } from './folder-cache.ts';
export { type CardFiles, ModelCache, type ModelCacheOptions } from './model-cache.ts';
export {
  type Artifact,
  type ArtifactSource,
  artifactKey,
  type BucketArtifact,
  type BucketPlace,
  bucketPlace,
  bucketSource,
  folderSource,
  listArtifacts,
  openS3,
  type PushedArtifact,
  pushFolder,
  type S3,
  workerSource,
} from './sources.ts';
