/**
 * @module protocol/json
 * Bodies as JSON: read with bounds and written in pieces, so that a large one holds nobody up.
 */
export {
  DESERIALIZE_LEAD_IN,
  type JsonBody,
  parseJsonBody,
  parseLargeJsonBody,
  parseOwnJson,
} from './json-body.ts';
export { isLongJson, jsonPieces, LazyList, objectPieces } from './json-writer.ts';
