/**
 * @module records
 * Readers of data from outside: records of other processes, bodies, configuration files. Nothing in such data is
 * trusted before it was read here. The `as` functions return undefined for a value of another kind, a `RecordReader`
 * throws an error that names field and value, and a `Shape` says whether a whole record is valid. They copy nothing, so
 * hot paths can use them too. A declared length is not trusted either: memory grows with the bytes that have come.
 * Everything that is kept of outside data is bounded. Outside names hash alike in every process.
 */
export { BoundedMap } from './bounded-map.ts';
export { ComingBytes, grown, roomy } from './coming-bytes.ts';
export { exactText, parseExact } from './exact-json.ts';
export { fnv1a, fnv1aOfBytes } from './fnv1a.ts';
export {
  asRecord,
  asU64,
  asWholeNumber,
  isRecord,
  RecordReader,
  type UnknownRecord,
  u64OfHex,
} from './record-reader.ts';
export {
  anything,
  byField,
  fields,
  flag,
  fraction,
  listOf,
  maybe,
  oneOf,
  onlyFields,
  optional,
  recordOf,
  type Shape,
  text,
  whole,
} from './shapes.ts';
export { utf8Text } from './utf8-text.ts';
