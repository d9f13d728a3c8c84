/**
 * @module artifacts/fetching
 * Models and adapters from elsewhere: where their files are read, how they are checked, and the bounded folders that keep them.
 * A door of its own: it is loaded when something has to be fetched.
 */
export { type BucketArtifact, listArtifacts, type PushedArtifact, pushFolder } from './bucket.ts';
export { FolderCache, type FolderCacheOptions } from './folder-cache.ts';
export { type CardFiles, ModelCache, type ModelCacheOptions } from './model-cache.ts';
export { type BucketPlace, bucketPlace, openS3, type S3 } from './s3.ts';
export {
  type Artifact,
  type ArtifactSource,
  artifactKey,
  bucketSource,
  folderSource,
  workerSource,
} from './sources.ts';
