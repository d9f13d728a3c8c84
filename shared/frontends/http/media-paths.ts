/** Paths of the media routes; no setting moves them. */
export const IMAGES_PATH = '/v1/images/generations';
export const IMAGE_EDITS_PATH = '/v1/images/edits';
/** The seed's path and its alias; `/stream` stands below each. */
export const VIDEO_PATHS = ['/v1/videos/generations', '/v1/videos'] as const;
