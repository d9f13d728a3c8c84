/**
 * @module planes/names
 * How names are written into keys and subjects. A door of its own: what only names things needs no plane.
 */
export { encodeSegment } from '../event/types.ts';
