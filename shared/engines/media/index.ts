/**
 * @module engines/media
 * Images, videos and sound that a request names by URL: which may be fetched, and fetching them without being led to where
 * only this host can go.
 */
export { type FetchedMedia, fetchMedia, type MediaFetchOptions } from './fetch-media.ts';
export { createMediaGuardedEngine } from './guarded-engine.ts';
export { readLocalMedia } from './local-media.ts';
export { withMediaGuard } from './media-guard.ts';
export { checkMediaUrl, type MediaPolicy, mediaPolicy } from './media-policy.ts';
export { mediaUrlsOf } from './media-urls.ts';
