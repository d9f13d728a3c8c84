/**
 * @module engines/media
 * Images, videos and sound that a request names by URL: which may be fetched, and fetching them without being led to where
 * only this host can go.
 */

export { createMediaGuardedEngine, withGenerate, withMediaGuard } from './guarded-engine.ts';
export { checkMediaUrl, type MediaPolicy, mediaPolicy } from './media-policy.ts';
export { mediaUrlsOf } from './media-urls.ts';
export { type FetchedMedia, fetchMedia, type MediaFetchOptions, readLocalMedia } from './read-media.ts';
