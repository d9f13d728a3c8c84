/**
 * @module records
 * What somebody else wrote: records of other processes, bodies, configuration files. Nothing of them is believed before it
 * was read here: the `as` functions return undefined for what is not of their kind, a `RecordReader` throws an error that names
 * field and value, a `Shape` says of a whole record whether it is one. Nothing is copied, so that readers of hot paths can use
 * it, too. Nor is a length believed: room is made by what has come. What is kept of others is bounded. Names of others hash alike
 * in every process.
 */
export { BoundedMap } from './bounded-map.ts';
export { ComingBytes, grown, roomy } from './coming-bytes.ts';
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
