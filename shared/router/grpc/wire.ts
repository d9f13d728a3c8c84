import protobuf from 'protobufjs/minimal.js';
import { ServeError, workerError } from '../../errors/index.ts';
import type { PoolRole } from '../types.ts';

/* What both ends of proto/router.proto write and read messages with. */

export const { Reader, Writer } = protobuf;
export type Reader = protobuf.Reader;
export type Writer = protobuf.Writer;

/** By their numbers in the file. */
export const ROLES: readonly PoolRole[] = ['aggregated', 'prefill', 'decode'];

/** Wire types of the fields that are written here. */
export const VARINT = 0;
export const FIXED64 = 1;
export const LENGTH = 2;

export function tag(field: number, wireType: number): number {
  return (field << 3) | wireType;
}

/** Writes a text unless it is empty, which is what an absent one means. */
export function text(writer: Writer, field: number, value: string): void {
  if (value !== '') writer.uint32(tag(field, LENGTH)).string(value);
}

export function whole(writer: Writer, field: number, value: number): void {
  if (value !== 0) writer.uint32(tag(field, VARINT)).uint32(value);
}

export function decimal(writer: Writer, field: number, value: number): void {
  if (value !== 0) writer.uint32(tag(field, FIXED64)).double(value);
}

/** Hands every field to `take`, which reads it and returns true, or leaves it to be passed over. */
export function readFields(reader: Reader, take: (field: number, reader: Reader) => boolean, end = reader.len): void {
  try {
    while (reader.pos < end) {
      const key = reader.uint32();
      if (!take(key >>> 3, reader)) reader.skipType(key & 7);
    }
  } catch (thrown) {
    throw thrown instanceof ServeError ? thrown : workerError('InvalidArgument', 'the message cannot be read');
  }
}
