/** Reads and writes the messages of proto/, with the code that `npm run proto` generates. */
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { workerError } from '../../errors/index.ts';

/**
 * Decodes a message.
 * @throws ServeError `invalid_value` for bytes that are not such a message
 */
export function decodeMessage<Schema extends DescMessage>(schema: Schema, bytes: Uint8Array): MessageShape<Schema> {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'unreadable';
    throw workerError('InvalidArgument', `failed to decode Protobuf message: ${schema.name}: ${reason}`);
  }
}

export function encodeMessage<Schema extends DescMessage>(schema: Schema, init: MessageInitShape<Schema>): Uint8Array {
  return toBinary(schema, create(schema, init));
}
